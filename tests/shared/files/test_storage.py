"""Signed links, visibility of files, and the quota."""

import asyncio
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from sqlalchemy import select, text

from shared.clock import SystemClock
from shared.db.database import Database
from shared.errors import NotFound, ToolError, Unavailable
from shared.files.quota import QUOTAS, read_quota
from shared.files.storage import FilesOfUser, Storage, open_storage
from shared.files.stored_file import LINK_SECONDS
from shared.files.stores.folder import FolderStore
from shared.models.files import FileRecord
from shared.settings import Secrets, Settings
from tests.support.clocks import SetClock
from tests.support.filing import add_user

MEGABYTE = 1024 * 1024


async def statuses(database: Database) -> list[str]:
    async with database.transaction() as session:
        return list(await session.scalars(select(FileRecord.status).order_by(FileRecord.id)))


def query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def test_a_signed_link_is_accepted(storage: Storage) -> None:
    url = storage.sign(7)

    assert url.startswith("http://here/files/7?")
    assert storage.check(7, query_of(url))


def test_a_link_is_valid_for_its_file_only(storage: Storage) -> None:
    assert not storage.check(8, query_of(storage.sign(7)))


@pytest.mark.parametrize(
    "change",
    [
        {"signature": "0" * 64},
        {"signature": ""},
        {"signature": "ü"},
        {"until": "99999999999"},
        {"until": "-1"},
        {"until": "1e12"},
        {"until": "٣"},
        {"until": "9" * 5000},
        {"until": ""},
    ],
)
def test_a_forged_link_is_refused(storage: Storage, change: dict[str, str]) -> None:
    assert not storage.check(7, query_of(storage.sign(7)) | change)


def test_a_link_without_signature_is_refused(storage: Storage) -> None:
    assert not storage.check(7, {})


def test_a_link_expires(tmp_path: Path) -> None:
    clock = SetClock(SystemClock().now())
    storage = Storage(FolderStore(tmp_path), "http://here", ("secret",), clock=clock)
    query = query_of(storage.sign(7))

    clock.moment += timedelta(seconds=LINK_SECONDS - 2)
    assert storage.check(7, query)
    clock.moment += timedelta(seconds=3)
    assert not storage.check(7, query)


def test_links_are_valid_as_long_as_their_key_is_configured(tmp_path: Path) -> None:
    def with_keys(*keys: str) -> Storage:
        return Storage(FolderStore(tmp_path), "http://here", keys)

    query = query_of(with_keys("old").sign(7))

    assert with_keys("new", "old").check(7, query)
    assert not with_keys("new").check(7, query)
    assert with_keys("new").check(7, query_of(with_keys("new", "old").sign(7)))


def test_links_begin_with_the_public_url(tmp_path: Path) -> None:
    secrets = Secrets("token", ("key",))
    home = tmp_path / "home"

    assert open_storage(Settings(parley_home=home), secrets).sign(1).startswith("http://127.0.0.1:8080/files/1?")
    assert (
        open_storage(Settings(parley_home=home, host="::1"), secrets).sign(1).startswith("http://[::1]:8080/files/1?")
    )
    public = Settings(parley_home=home, public_url="https://chat.example/")
    assert open_storage(public, secrets).sign(1).startswith("https://chat.example/files/1?")
    assert not home.exists()


async def test_a_file_is_created_read_listed_linked_and_deleted(
    database: Database, storage: Storage, user_id: int
) -> None:
    files = storage.of_user(database, user_id, None)
    document = await files.create("../plan.md", b"# Plan", "text/markdown")

    assert (document.filename, document.mime_type, document.size_bytes) == ("plan.md", "text/markdown", 6)
    assert (await files.read(document.file_id))[1] == b"# Plan"
    assert [file.file_id for file in await files.list()] == [document.file_id]
    linked = await files.link(document.file_id)
    assert storage.check(document.file_id, query_of(linked.url))
    record, content = await storage.open(database, document.file_id)
    assert (record.filename, [chunk async for chunk in content]) == ("plan.md", [b"# Plan"])

    assert (await files.delete(document.file_id)).filename == "plan.md"
    assert await files.list() == []
    with pytest.raises(NotFound):
        await files.read(document.file_id)
    with pytest.raises(NotFound):
        await storage.open(database, document.file_id)


@pytest.mark.parametrize("what", ["read", "link", "delete"])
async def test_another_users_file_raises_the_same_error_as_a_missing_one(
    database: Database, storage: Storage, user_id: int, what: str
) -> None:
    theirs = await storage.of_user(database, user_id, None).create("secret.txt", b"secret")
    files = storage.of_user(database, await add_user(database), None)

    answers = []
    for file_id in (theirs.file_id, theirs.file_id + 1000, 0, -1, 2**63, 10**30):
        with pytest.raises(NotFound) as caught:
            await getattr(files, what)(file_id)
        answers.append((str(caught.value), caught.value.fields))
    assert answers == [answers[0]] * 6
    assert await files.list() == []
    assert (await storage.of_user(database, user_id, None).read(theirs.file_id))[1] == b"secret"


async def test_files_are_listed_newest_first(database: Database, storage: Storage, user_id: int) -> None:
    files = storage.of_user(database, user_id, None)
    for name in ("one", "two", "three"):
        await files.create(name, b"x")

    assert [file.filename for file in await files.list()] == ["three", "two", "one"]


async def test_a_file_above_the_size_limit_is_refused_without_a_row(
    database: Database, tmp_path: Path, user_id: int
) -> None:
    storage = Storage(FolderStore(tmp_path), "http://here", ("k",), max_file_bytes=MEGABYTE)
    files = storage.of_user(database, user_id, None)

    with pytest.raises(ToolError, match="up to 1 MB"):
        await files.create("big", bytes(MEGABYTE + 1))
    assert await statuses(database) == []


async def test_the_quota_is_per_user_and_deleting_frees_space(database: Database, tmp_path: Path, user_id: int) -> None:
    storage = Storage(FolderStore(tmp_path), "http://here", ("k",), quotas={"guest": MEGABYTE})
    files = storage.of_user(database, user_id, None)
    first = await files.create("a", bytes(MEGABYTE))

    with pytest.raises(ToolError, match="1 MB"):
        await files.create("b", b"x")
    await storage.of_user(database, await add_user(database), None).create("c", b"x")
    await files.delete(first.file_id)
    await files.create("b", b"x")


async def test_concurrent_uploads_do_not_exceed_the_quota(database: Database, tmp_path: Path, user_id: int) -> None:
    storage = Storage(FolderStore(tmp_path), "http://here", ("k",), quotas={"guest": 3000})
    files = storage.of_user(database, user_id, None)
    outcomes = await asyncio.gather(
        *(files.create(f"{number}", bytes(1000)) for number in range(12)), return_exceptions=True
    )

    assert sum(isinstance(outcome, ToolError) for outcome in outcomes) == 9
    assert await statuses(database) == ["stored"] * 3


async def test_a_pending_file_counts_against_the_quota_for_an_hour(database: Database, user_id: int) -> None:
    async with database.transaction() as session:
        session.add(
            FileRecord(
                user_id=user_id, filename="a", minio_key="k", mime_type="text/plain", size_bytes=9, status="pending"
            )
        )
    async with database.transaction() as session:
        assert (await read_quota(session, user_id, QUOTAS)).used == 9
        await session.execute(text("UPDATE file_records SET created_at = now() - interval '2 hours'"))
        assert (await read_quota(session, user_id, QUOTAS)).used == 0


async def test_an_upload_while_the_store_is_down_leaves_a_failed_row(
    database: Database, tmp_path: Path, user_id: int
) -> None:
    (tmp_path / "files").write_text("in the way")
    files: FilesOfUser = Storage(FolderStore(tmp_path / "files"), "http://here", ("k",)).of_user(
        database, user_id, None
    )

    with pytest.raises(Unavailable):
        await files.create("a.txt", b"x")
    assert await statuses(database) == ["failed"]
    async with database.transaction() as session:
        failed = (await session.scalars(select(FileRecord.id))).one()
    with pytest.raises(ToolError, match=r"a\.txt has not arrived"):
        await files.read(failed)
    assert await files.list() == []


async def test_each_level_has_a_quota_of_its_own(database: Database, settings: Settings, user_id: int) -> None:
    configuration = settings.model_copy(update={"file_quota_guest_mb": 0, "file_quota_admin_mb": 2})
    files = open_storage(configuration, Secrets("token", ("k",))).of_user(database, user_id, None)

    with pytest.raises(ToolError, match="may take 0 MB"):
        await files.create("a", b"x")
    async with database.transaction() as session:
        await session.execute(text("UPDATE users SET permission_level = 'admin'"))
    await files.create("a", bytes(MEGABYTE))
    with pytest.raises(ToolError, match="may take 2 MB"):
        await files.create("b", bytes(MEGABYTE + 1))
