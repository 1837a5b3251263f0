"""Makes a backup: the database as one snapshot shows it, the files that its rows name, and the secrets."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

import asyncpg
from msgspec import Struct

from shared.backup.archive import DATABASE, FILES, FORMAT, SECRETS, ArchiveWriter, Manifest, created, is_permitted
from shared.backup.database import DumpOptions, read_contents, read_roles, refuse_others, write_dump
from shared.db.database import Address
from shared.db.driver import to_sql
from shared.db.programs import list_dump_options
from shared.db.statements import load_statements
from shared.errors import NotFound
from shared.files.stores.store import Store

statements = load_statements(__file__)


class Installation(Struct, frozen=True):
    """What a backup is made of: the database, the store of the files, and the secrets by the names of their files."""

    address: Address
    store: Store
    secrets: Mapping[str, str]
    version: str


async def make_backup(source: Installation, path: Path, *, is_live: bool = False) -> Manifest:
    """Write a new archive and return its manifest; memory does not grow with what it holds.

    Raises `BackupError` when others are connected to the database. With `is_live` they may be: the archive then has
    the state of the moment in which it was begun, and a file that is deleted meanwhile counts as missing.
    """
    connection = await source.address.connect(as_owner=True, statement_seconds=0)
    try:
        if not is_live:
            await refuse_others(connection)
        # The transaction waits while files are copied.
        await connection.execute("SET idle_in_transaction_session_timeout = 0")
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            with created(path) as archive:
                return await _write(source, connection, archive)
    finally:
        await connection.close()


async def _write(source: Installation, connection: asyncpg.Connection, archive: ArchiveWriter) -> Manifest:
    snapshot, now = await connection.fetchrow("SELECT pg_export_snapshot(), now()")
    major = connection.get_server_version().major
    contents = await read_contents(connection)
    roles, members = await read_roles(connection)
    dump = DumpOptions(major, snapshot, *await list_dump_options(source.address))
    with archive.entry(DATABASE) as sink:
        await asyncio.to_thread(write_dump, source.address, dump, sink)
    missing_keys, damaged = [], []
    if "file_records" in contents.rows:
        async for row in connection.cursor(to_sql(statements.list_keys)):
            is_there = await _write_file(source.store, row["key"], archive)
            if row["is_stored"] and not is_there:
                missing_keys.append(row["key"])
            elif is_there and row["sha256"] not in (None, archive.entries[f"{FILES}{row['key']}"].sha256):
                damaged.append(row["key"])
    for name, value in source.secrets.items():
        with archive.entry(f"{SECRETS}{name}") as sink:
            sink.write(value.encode())
    manifest = Manifest(
        format=FORMAT,
        version=source.version,
        made_at=now,
        postgres=major,
        revisions=contents.revisions,
        roles=roles,
        members=members,
        rows=contents.rows,
        audit=contents.audit,
        missing=missing_keys,
        damaged=damaged,
        entries=archive.entries,
    )
    archive.finish(manifest)
    return manifest


async def _write_file(store: Store, key: str, archive: ArchiveWriter) -> bool:
    # Returns whether the store has it; one that is missing must not leave an empty entry.
    name = f"{FILES}{key}"
    if name in archive.entries:
        return True
    if not is_permitted(name):
        return False
    async with aclosing(store.get(key)) as chunks:
        try:
            first = await anext(chunks, b"")
        except NotFound:
            return False
        with archive.entry(name) as sink:
            sink.write(first)
            async for chunk in chunks:
                sink.write(chunk)
    return True
