"""The database's part of a backup: what it holds, who uses it, and the programs that write and read its dump."""

import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from tempfile import TemporaryFile
from typing import NamedTuple

import asyncpg

from shared.backup.archive import CHUNK_BYTES, AuditState, BackupError, Sink
from shared.db.database import Address
from shared.db.driver import to_sql
from shared.db.programs import connection_string, find_program
from shared.db.statements import load_statements

statements = load_statements(__file__)

MOST_NAMED = 5
LAST_LINES = 3


class Person(NamedTuple):
    """A program that is connected, with the role and the host it came from, and since when."""

    name: str
    role: str
    host: str
    connections: int
    since: datetime

    def __str__(self) -> str:
        several = f", {self.connections} connections" if self.connections > 1 else ""
        return f"{self.name} (role {self.role}, from {self.host}, since {self.since:%d %B %H:%M} UTC{several})"


class DumpOptions(NamedTuple):
    """Which version of pg_dump writes what; `options` and `of_server` are those of `list_dump_options`."""

    major: int
    snapshot: str
    options: Sequence[str]
    of_server: str


class Contents(NamedTuple):
    """What a database holds, by which a restored one is compared."""

    revisions: dict[str, str]
    rows: dict[str, int]
    audit: AuditState


async def refuse_others(connection: asyncpg.Connection, program: str = "") -> None:
    """Raise `BackupError` with the names of those who are connected to this database, if there are any.

    `program` is what their names begin with.
    """
    people = [Person(*row) for row in await connection.fetch(to_sql(statements.list_others))]
    others = [person for person in people if person.name.startswith(program)]
    if not others:
        return
    names = "; ".join(map(str, others[:MOST_NAMED]))
    more = f"; and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    raise BackupError(f"Others use the database: {names}{more}. Stop them first.")


async def end_history(connection: asyncpg.Connection) -> None:
    """Have whoever connects to the restored tables next begin a new history.

    Ids that were given out since the backup would mean something else otherwise: to workers that live, to buttons
    below old answers, to callers. Tables of releases that had no histories are migrated first.
    """
    with suppress(asyncpg.UndefinedTableError):
        await connection.execute(to_sql(statements.end_history))


async def is_empty(connection: asyncpg.Connection) -> bool:
    """Tell whether the database has no tables, views or sequences yet, except those of extensions."""
    return not await connection.fetchval(to_sql(statements.count_objects))


async def read_contents(connection: asyncpg.Connection) -> Contents:
    """Return the revisions of the tables, the number of rows in each, and the state of the audit log."""
    names = [row["relname"] for row in await connection.fetch(to_sql(statements.list_tables))]
    rows = {name: await connection.fetchval(f'SELECT count(*) FROM public."{name}"') for name in names}  # noqa: S608 - catalogued
    revisions = {row["owner"]: row["revision"] for row in await connection.fetch(to_sql(statements.list_revisions))}
    audit = AuditState(**dict(await connection.fetchrow(to_sql(statements.verify_audit))))
    return Contents(revisions, rows, audit)


async def read_roles(connection: asyncpg.Connection) -> tuple[dict[str, bool], list[tuple[str, str]]]:
    """Return our roles, with whether each may log in, and the pairs of a role and its member."""
    roles = {row["rolname"]: row["rolcanlogin"] for row in await connection.fetch(to_sql(statements.list_roles))}
    return roles, sorted(tuple(row) for row in await connection.fetch(to_sql(statements.list_members)))


def write_dump(address: Address, dump: DumpOptions, sink: Sink) -> None:
    """Write what the snapshot shows with the server's own pg_dump."""
    program = find_program("pg_dump", is_embedded=address.is_embedded, major=dump.major)
    with TemporaryFile() as errors, connection_string(address, options=dump.of_server) as target:
        command = [program, f"--dbname={target}", "--format=custom", f"--snapshot={dump.snapshot}", *dump.options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as running:  # noqa: S603  # Postgres's own
            while running.stdout is not None and (chunk := running.stdout.read(CHUNK_BYTES)):
                sink.write(chunk)
        if running.returncode:
            errors.seek(0)
            raise BackupError(f"pg_dump failed: {_last_lines(errors.read())}")


def run_pg_restore(
    address: Address, major: int, dump: Iterable[bytes], *, options: Sequence[str], connects: bool = True
) -> str:
    """Feed a dump to the server's own pg_restore and return what that writes; raises `BackupError` when it fails."""
    program = find_program("pg_restore", is_embedded=address.is_embedded, major=major)
    with TemporaryFile() as errors, TemporaryFile() as output, connection_string(address) as target:
        command = [program, *([f"--dbname={target}"] if connects else []), *options]
        parameters = {"stdin": subprocess.PIPE, "stdout": output, "stderr": errors}
        # It may end before it has read everything: with an error, or because it has what it needs.
        with suppress(BrokenPipeError), subprocess.Popen(command, **parameters) as running:  # type: ignore[call-overload]  # noqa: S603  # its own
            running.stdin.writelines(dump)
            running.stdin.close()
        errors.seek(0)
        if running.returncode:
            raise BackupError(f"pg_restore failed, and the database was left as it was: {_last_lines(errors.read())}")
        output.seek(0)
        return output.read().decode()


def _last_lines(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return " ".join(lines[-LAST_LINES:]) or "it said nothing"
