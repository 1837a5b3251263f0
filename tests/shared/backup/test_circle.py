"""A backup of a Parley that has answered, restored into the Postgres of somebody else."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import text

from adapters.tables import update_tables
from shared.backup.archive import BackupError, opened
from shared.backup.create import Installation, make_backup
from shared.backup.database import read_contents
from shared.backup.restore import refuse_newer, refuse_used, restore_database, restore_files
from shared.db.database import Address, Database
from shared.db.hosts import URL
from shared.errors import NotFound
from shared.files.stores.folder import FolderStore
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected
from tests.support.given_database import GivenTables, given_database
from tests.support.parley import open_parley

KEY, LOST = "7/abc/notes.txt", "7/def/lost.txt"
PARTITIONS = "SELECT * FROM parley_partitions() ORDER BY name"


async def chunks() -> AsyncIterator[bytes]:
    for _ in range(40):
        yield b"x" * 100_000


@pytest.fixture
def address(new_address: Address) -> Address:
    """A database of which is told who is connected."""
    return new_address


@pytest.fixture
async def source(settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path) -> Installation:
    """An installation with an answered message, a large file, a file that is lost, and entries in the audit log."""
    async with open_parley(settings, address, model) as parley:
        await parley.ask("hello")
        await parley.sql(
            "INSERT INTO file_records (user_id, filename, minio_key, mime_type, status)"
            " SELECT id, 'notes.txt', key, 'text/plain', 'stored' FROM users, unnest(CAST(:keys AS text[])) AS key",
            keys=[KEY, LOST],
        )
        await parley.sql("INSERT INTO personas (name, system_prompt) VALUES ('Cook', 'You cook.')")
        await parley.sql("UPDATE users SET token_budget_monthly = 7000")
    store = FolderStore(tmp_path / "files")
    await store.put(KEY, chunks(), "text/plain")
    return Installation(address, store, {"api_token": "secret"}, "0.1.0")


async def test_a_backup_is_restored_into_another_postgres(source: Installation, postgres: URL, tmp_path: Path) -> None:
    path, store = tmp_path / "backup.zip", FolderStore(tmp_path / "new")

    manifest = await make_backup(source, path)

    assert manifest.missing == [LOST]
    assert manifest.audit.entries >= 2
    async with given_database(postgres) as target:
        with opened(path) as archive:
            await refuse_used(manifest, target)
            await restore_database(archive, target)
            await restore_files(archive, store, target)
            with pytest.raises(BackupError, match="not empty"):
                await refuse_used(manifest, target)
        assert b"".join([chunk async for chunk in store.get(KEY)]) == b"x" * 4_000_000
        with pytest.raises(NotFound):
            await store.size(LOST)
        async with connected(target) as owner:
            # Whoever connects begins a new history, also where the backup was made on this server.
            histories = manifest.rows["database_histories"] + 1
            assert (await read_contents(owner)).rows == {**manifest.rows, "database_histories": histories}
            assert await owner.fetchval("SELECT nextval('turns_id_seq')") > 1_000_000
            async with connected(source.address) as old:
                assert await owner.fetch(PARTITIONS) == await old.fetch(PARTITIONS)
            await owner.fetchval("SELECT setval('turns_id_seq', 50000)")
            # What later migrations make belongs to the program as before.
            await owner.execute("CREATE TABLE later (id bigint)")
        database = Database(target, pool_size=2)
        async with database.statement() as session:
            rows = (await session.execute(text("SELECT token_budget_monthly AS tokens FROM users"))).all()
            assert [row.tokens for row in rows] == [7000]
            assert (await session.execute(text("SELECT count(*) FROM later"))).scalar_one() == 0
            # One more for each table; the owner here is no superuser.
            assert (await session.execute(text("SELECT parley_make_partitions(365)"))).scalar_one() == 3
        await database.close()
        assert not await update_tables(target)


async def test_what_is_remembered_moves_from_an_owner_whom_row_level_security_binds_to_another_one(
    postgres: URL, given: GivenTables, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "files")
    async with given.one() as source, given_database(postgres) as target:
        async with connected(source, as_owner=False) as program:
            await program.execute("INSERT INTO users DEFAULT VALUES")
            await program.execute("SELECT set_config('parley.user_id', '1', false)")
            await program.execute("INSERT INTO memories (user_id, platform, content) VALUES (1, 'web', 'tea')")
        manifest = await make_backup(Installation(source, store, {}, "0.1.0"), tmp_path / "bound.zip")
        assert manifest.rows["memories"] == 1
        with opened(tmp_path / "bound.zip") as archive:
            await restore_database(archive, target)
        async with connected(target) as owner:
            assert await owner.fetchval("SELECT content FROM memories") == "tea"
            await owner.execute("SELECT set_config('parley.rows', '', false)")
            assert await owner.fetch("SELECT content FROM memories") == []


async def test_others_are_named_and_a_live_backup_has_the_state_of_one_moment(
    source: Installation, owner: asyncpg.Connection, tmp_path: Path
) -> None:
    await owner.execute("SET application_name = 'an open psql'")
    database = Database(source.address, pool_size=2)
    async with database.statement() as session:
        await session.execute(text("SELECT 1"))

    with pytest.raises(BackupError) as error:
        await make_backup(source, tmp_path / "backup.zip")
    assert "Others use the database: an open psql (role postgres, from this machine" in str(error.value)
    assert f"; parley, process {os.getpid()} (role parley_app, from this machine" in str(error.value)
    await database.close()
    # Nothing is left of the first try: the name is free.
    manifest = await make_backup(source, tmp_path / "backup.zip", is_live=True)

    assert manifest.rows["users"] == 1
    with pytest.raises(BackupError, match="an open psql"):
        await refuse_used(manifest, source.address)


async def test_a_backup_of_a_newer_release_is_refused(source: Installation, tmp_path: Path) -> None:
    manifest = await make_backup(source, tmp_path / "backup.zip")

    refuse_newer(manifest, {"alembic_version": [manifest.revisions["alembic_version"]]})
    newer = manifest.model_copy(update={"version": "9.0", "revisions": {"alembic_version": "9999"}})
    with pytest.raises(BackupError, match=r"made by Parley 9\.0, whose tables \(revision 9999\) this release"):
        refuse_newer(newer, {"alembic_version": ["0001"]})
