"""The contract of a file store, checked for the folder and for S3, and their behaviour when they are down."""

import asyncio
import resource
import socket
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.errors import ConfigurationError, NotFound, ToolError, Unavailable
from shared.files.filenames import new_key
from shared.files.storage import Storage, open_storage
from shared.files.stores.folder import FolderStore
from shared.files.stores.s3 import CONNECT_SECONDS, READ_SECONDS, S3Store
from shared.files.stores.store import Store
from shared.settings import Secrets, Settings
from tests.support.eventually import PATIENCE
from tests.support.filing import chunks, everything
from tests.support.loopback import reply, serving, silence
from tests.support.object_storage import serving_s3

MEGABYTE = 1024 * 1024


def s3_settings(port: int, bucket: str = "parley") -> Settings:
    return Settings(
        s3_endpoint=f"http://127.0.0.1:{port}",
        s3_access_key=SecretStr("one"),
        s3_secret_key=SecretStr("two"),
        s3_bucket=bucket,
    )


@pytest.fixture(scope="module")
def s3_port() -> Iterator[int]:
    with serving_s3() as port:
        yield port


@pytest.fixture(params=["folder", "s3"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    backend: Store
    if request.param == "folder":
        backend = FolderStore(tmp_path / "files")
    else:
        backend = S3Store(s3_settings(request.getfixturevalue("s3_port")))
    yield backend
    await backend.aclose()


async def test_a_stored_file_is_read_back(store: Store) -> None:
    key = new_key("1", "hello.txt")

    assert await store.put(key, chunks(b"hello ", b"", b"world"), "text/plain") == 11
    assert await everything(store, key) == b"hello world"
    assert await store.size(key) == 11


async def test_an_empty_file_can_be_stored(store: Store) -> None:
    key = new_key("1", "empty")

    assert await store.put(key, chunks(), "text/plain") == 0
    assert await everything(store, key) == b""
    assert await store.size(key) == 0


async def test_a_large_file_is_read_in_chunks(store: Store) -> None:
    key = new_key("1", "large.bin")
    part = bytes(range(256)) * 4096
    await store.put(key, chunks(*[part] * 12), "application/octet-stream")

    largest = total = checksum = 0
    async for chunk in store.get(key):
        largest, total, checksum = max(largest, len(chunk)), total + len(chunk), zlib.crc32(chunk, checksum)

    assert (total, checksum) == (12 * MEGABYTE, zlib.crc32(part * 12))
    assert largest <= MEGABYTE


async def test_a_second_put_replaces_the_first(store: Store) -> None:
    key = new_key("1", "a.txt")
    await store.put(key, chunks(b"first, and longer"), "text/plain")
    await store.put(key, chunks(b"second"), "text/plain")

    assert await everything(store, key) == b"second"


async def test_a_missing_key_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await everything(store, new_key("1", "never"))
    with pytest.raises(NotFound):
        await store.size(new_key("1", "never"))


async def test_deleting_twice_is_no_error(store: Store) -> None:
    key = new_key("1", "a.txt")
    await store.put(key, chunks(b"x"), "text/plain")
    await store.delete(key)
    await store.delete(key)

    with pytest.raises(NotFound):
        await everything(store, key)


async def test_nothing_is_stored_when_the_source_fails(store: Store) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"half of it"
        raise ToolError("gone")

    key = new_key("1", "half.txt")
    with pytest.raises(ToolError, match="gone"):
        await store.put(key, failing(), "text/plain")
    with pytest.raises(NotFound):
        await store.size(key)


async def test_a_reader_that_stops_early_releases_its_connection(store: Store) -> None:
    key = new_key("1", "large.bin")
    await store.put(key, chunks(bytes(2 * MEGABYTE)), "application/octet-stream")
    for _ in range(20):
        async with aclosing(Storage(store, "http://here", ("k",)).get(key)) as content:
            await anext(content)

    assert await store.size(key) == 2 * MEGABYTE


async def test_many_files_can_be_stored_concurrently(store: Store) -> None:
    keys = [new_key("1", f"{number}.txt") for number in range(30)]
    await asyncio.gather(*(store.put(key, chunks(key.encode()), "text/plain") for key in keys))

    assert await asyncio.gather(*(everything(store, key) for key in keys)) == [key.encode() for key in keys]


@pytest.mark.parametrize(
    "key",
    [
        "../outside",
        "1/../../outside",
        "/etc/passwd",
        "1//a",
        "",
        ".",
        "..",
        "1/.incoming",
        "a\\..\\b",
        "a/b\x00",
        "1/a/",
    ],
)
async def test_a_key_can_not_lead_out_of_the_folder(tmp_path: Path, key: str) -> None:
    (tmp_path / "outside").write_text("secret")
    store = FolderStore(tmp_path / "files")

    with pytest.raises(NotFound):
        await store.put(key, chunks(b"x"), "text/plain")
    with pytest.raises(NotFound):
        await everything(store, key)
    with pytest.raises(NotFound):
        await store.delete(key)
    assert (tmp_path / "outside").read_text() == "secret"


async def test_only_the_owner_can_read_the_folder_and_no_temporary_files_remain(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "files")
    key = new_key("1", "a.txt")
    await store.put(key, chunks(b"x"), "text/plain")
    path = tmp_path / "files" / key

    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    assert list((tmp_path / "files" / ".incoming").iterdir()) == []
    await store.delete(key)
    assert not path.parent.exists()


async def test_a_folder_that_can_not_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    store = FolderStore(tmp_path / "files")

    with pytest.raises(Unavailable):
        await store.put(new_key("1", "a"), chunks(b"x"), "text/plain")


async def test_a_full_disk_is_unavailable_and_says_so(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "files")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEGABYTE, hard))
    try:
        with pytest.raises(Unavailable, match="full"):
            await store.put("1/a/b", chunks(bytes(MEGABYTE), bytes(MEGABYTE)), "text/plain")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert list((tmp_path / "files" / ".incoming").iterdir()) == []


async def test_concurrent_uploads_create_a_missing_bucket(s3_port: int) -> None:
    stores = [S3Store(s3_settings(s3_port, "fresh")) for _ in range(4)]
    with pytest.raises(NotFound):
        await stores[0].size("1/a/b")
    await asyncio.gather(*(store.put(new_key("1", "a"), chunks(b"x"), "text/plain") for store in stores))
    for file_store in stores:
        await file_store.aclose()


async def test_an_s3_that_refuses_connections_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        store = S3Store(s3_settings(unused.getsockname()[1]))
        with pytest.raises(Unavailable):
            await store.put("1/a/b", chunks(b"x"), "text/plain")
        with pytest.raises(Unavailable):
            await everything(store, "1/a/b")
        with pytest.raises(Unavailable):
            await store.delete("1/a/b")
        await store.aclose()


async def test_an_s3_that_does_not_answer_is_unavailable_after_the_timeout() -> None:
    async with serving(silence) as server:
        store = S3Store(s3_settings(server.port), call_seconds=0.3)
        with pytest.raises(Unavailable):
            await store.size("1/a/b")
        await store.aclose()


async def test_an_upload_to_an_s3_that_never_answers_is_refused_within_ten_seconds() -> None:
    async with serving(silence) as server:
        store = S3Store(s3_settings(server.port))
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(Unavailable):
                await store.put("1/a/b", chunks(b"x"), "text/plain")
        await store.aclose()
        assert len(server.requests) * (CONNECT_SECONDS + READ_SECONDS) < 10


async def test_an_s3_that_denies_access_is_unavailable() -> None:
    refusal = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    async with serving(reply(refusal, 403, {"Content-Type": "application/xml"})) as server:
        store = S3Store(s3_settings(server.port))
        with pytest.raises(Unavailable):
            await everything(store, "1/a/b")
        await store.aclose()


@pytest.mark.parametrize("endpoint", ["https://", "ftp://host", "http://host/path", "http://user:word@host"])
def test_a_wrong_endpoint_names_the_variable(endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match="S3_ENDPOINT"):
        open_storage(Settings(s3_endpoint=endpoint), Secrets("token", ("key",)))
