"""Restores a backup into an empty database and a new folder, and compares what is there then with the manifest."""

import asyncio
import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from shared.backup.archive import DATABASE, FILES, SECRETS, Archive, BackupError, Manifest
from shared.backup.database import end_history, is_empty, read_contents, refuse_others, run_pg_restore
from shared.db.database import Address
from shared.db.driver import to_sql
from shared.db.statements import load_statements
from shared.errors import NotFound
from shared.files.stores.content import iterate, put
from shared.files.stores.folder import open_owner_only
from shared.files.stores.store import Store

statements = load_statements(__file__)

OF_US = re.compile(r"parley_[a-z_]{1,40}")
# The comment of an extension belongs to whoever has installed it, and rights that are given in advance name the role
# that owned the old database.
EXTENSION = re.compile(r"\d+; \d+ \d+ (EXTENSION - |COMMENT - EXTENSION )")
# It names the role that owned the old tables, too.
POLICY_OF_OWNER = re.compile(r"\d+; \d+ \d+ POLICY public \S+ \S+_of_its_owner_")
RIGHTS_IN_ADVANCE = re.compile(r"\d+; \d+ \d+ DEFAULT ACL ")
FOR_OLD_OWNER = re.compile(r'^(ALTER DEFAULT PRIVILEGES) FOR ROLE (?:"(?:[^"]|"")+"|\S+)')
ADD_ROLE = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{name}') THEN
        CREATE ROLE {name} {login} NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
    END IF;
    IF NOT pg_has_role(current_user, '{name}', CASE
        WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET'
    END) THEN
        EXECUTE format('GRANT {name} TO %I', current_user);
    END IF;
END
$$
"""
UNKNOWN_TYPE = "application/octet-stream"


def refuse_newer(manifest: Manifest, revisions: Mapping[str, Collection[str]]) -> None:
    """Raise `BackupError` when a newer release made the backup; `known` are the revisions of each owner of tables.

    Tables of an owner that is not here are restored all the same.
    """
    for owner, revision in manifest.revisions.items():
        if owner in revisions and revision not in revisions[owner]:
            raise BackupError(
                f"The backup was made by Parley {manifest.version}, whose tables (revision {revision}) this release "
                "does not know; install that release or a later one, then restore."
            )


async def refuse_used(manifest: Manifest, address: Address) -> None:
    """Raise `BackupError` when the database is not empty, others use it, or its server is older than the backup's."""
    connection = await address.connect(as_owner=True, statement_seconds=0)
    try:
        await refuse_others(connection)
        if not await is_empty(connection):
            raise BackupError("The database is not empty; a backup is restored into a new one alone.")
        major = connection.get_server_version().major
        if major < manifest.postgres:
            raise BackupError(f"The backup is of Postgres {manifest.postgres}, and this server is {major}.")
    finally:
        await connection.close()


async def restore_database(archive: Archive, address: Address) -> None:
    """Restore into an empty database, as a whole or not at all.

    Raises `BackupError` when the rows in a table, or the audit log, are not those of the manifest afterwards.
    """
    manifest = archive.manifest
    connection = await address.connect(as_owner=True, statement_seconds=0)
    try:
        # Roles belong to the server, so that the dump of a database does not have them.
        for name in {*manifest.roles, *(role for pair in manifest.members for role in pair)}:
            if not OF_US.fullmatch(name):
                raise BackupError(f"The backup names the role {name!r}, which is none of Parley's.")
        for name, may_log_in in manifest.roles.items():
            await connection.execute(ADD_ROLE.format(name=name, login="LOGIN" if may_log_in else "NOLOGIN"))
        for role, member in manifest.members:
            await connection.execute(f"GRANT {role} TO {member}")
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        rights = await asyncio.to_thread(_load, archive, address, connection.get_server_version().major)
        await connection.execute(rights)
        await connection.execute(to_sql(statements.bind_owner))
        await end_history(connection)
        contents = await read_contents(connection)
    finally:
        await connection.close()
    tables = sorted(manifest.rows.keys() | contents.rows.keys())
    wrong = [name for name in tables if manifest.rows.get(name) != contents.rows.get(name)]
    if wrong:
        before, after = (counts.get(wrong[0], "no") for counts in (manifest.rows, contents.rows))
        raise BackupError(f"{wrong[0]} has {after} rows after the restore, and {before} in the backup.")
    if manifest.audit != contents.audit:
        raise BackupError("The audit log is another one after the restore than in the backup.")


async def restore_files(archive: Archive, store: Store, address: Address) -> None:
    """Store the files; raises `BackupError` when the store has another content for one of them afterwards."""
    connection = await address.connect(as_owner=True, statement_seconds=0)
    try:
        for key in archive.names(FILES):
            entry = archive.manifest.entries[f"{FILES}{key}"]
            mime_type = await connection.fetchval(to_sql(statements.find_mime_type), key) or UNKNOWN_TYPE
            chunks = iterate(archive.chunks(f"{FILES}{key}"))
            await put(store, key, chunks, mime_type=mime_type, limit=entry.bytes)
            if await _hash_of(store, key) != entry.sha256:
                raise BackupError(f"The store has something else for the file {key} than the backup.")
    finally:
        await connection.close()


def restore_secrets(archive: Archive, home: Path) -> list[str]:
    """Write the secrets into files that only their owner may read; return their names."""
    names = archive.names(SECRETS)
    for name in names:
        with open(home / name, "xb", opener=open_owner_only) as file:
            file.writelines(archive.chunks(f"{SECRETS}{name}"))
    return names


def _load(archive: Archive, address: Address, major: int) -> str:
    # Returns the statements that give rights in advance, for the role that owns the database now.
    listing = run_pg_restore(address, major, archive.chunks(DATABASE), options=["--list"], connects=False)
    rights: list[str] = []
    objects: list[str] = []
    for line in listing.splitlines(keepends=True):
        if not EXTENSION.match(line) and not POLICY_OF_OWNER.match(line):
            (rights if RIGHTS_IN_ADVANCE.match(line) else objects).append(line)
    with _list_file(objects) as chosen:
        options = ["--single-transaction", "--exit-on-error", "--no-owner", chosen]
        run_pg_restore(address, major, archive.chunks(DATABASE), options=options)
    with _list_file(rights) as chosen:
        options = ["--file=-", chosen]
        script = run_pg_restore(address, major, archive.chunks(DATABASE), options=options, connects=False)
    lines = [line for line in script.splitlines() if line.startswith("ALTER DEFAULT PRIVILEGES")]
    return "\n".join(FOR_OLD_OWNER.sub(r"\1", line) for line in lines)


@contextmanager
def _list_file(lines: Iterable[str]) -> Iterator[str]:
    # The option that makes pg_restore take these objects of the dump alone.
    with NamedTemporaryFile("w", prefix="parley-restore-", encoding="utf-8") as file:
        file.writelines(lines)
        file.flush()
        yield f"--use-list={file.name}"


async def _hash_of(store: Store, key: str) -> str | None:
    sha256 = hashlib.sha256()
    try:
        async with aclosing(store.get(key)) as chunks:
            async for chunk in chunks:
                sha256.update(chunk)
    except NotFound:
        return None
    return sha256.hexdigest()
