"""`parley migrate`, `psql` and `dump`, and the restore of a dump."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import typer

from adapters.cli.console import complain, progress, say
from adapters.cli.opening import find_database, name_system_user, read_settings

if TYPE_CHECKING:
    from shared.db.database import Address

app = typer.Typer()

# pg_restore can't drop the constraints of partitions one by one: their tables go before, in the same transaction.
BEGIN = b"""
BEGIN;
DO $$
DECLARE
    v_table regclass;
BEGIN
    FOR v_table IN SELECT oid FROM pg_class
        WHERE relkind = 'p' AND NOT relispartition AND relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('DROP TABLE %s CASCADE', v_table);
    END LOOP;
END
$$;
"""


@app.command("migrate")
def migrate_tables() -> None:
    """Bring the tables to the newest revision. `run`, `worker` and `chat` do this by themselves."""
    from adapters.tables import update_tables
    from shared.db.database import check
    from shared.db.migrations import newest_revision

    settings = read_settings(quiet=True)
    address = find_database(settings)

    async def work() -> list[str]:
        await check(address)
        return await update_tables(address, settings.modules_path)

    has_changed = asyncio.run(work())
    say(f"the tables are at revision {newest_revision()}{'' if has_changed else ', nothing to change'}")
    if owners := [owner for owner in has_changed if owner != "parley"]:
        say(f"the tables of {', '.join(owners)} are made")


@app.command("psql", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def open_psql(
    context: typer.Context,
    readonly: bool = typer.Option(False, "--readonly", help="Only look, and not at what people have written."),
    superuser: bool = typer.Option(False, "--superuser", help="As the database's owner, who may do everything."),
) -> None:
    """Open psql on Parley's database, as an admin; what stands behind is passed on, for instance -c 'SELECT …'."""
    from shared.db.roles import ADMIN_ROLE, READONLY_ROLE

    if readonly and superuser:
        raise typer.BadParameter("--readonly and --superuser exclude each other.")
    address = find_database(read_settings(quiet=True))
    role = None if superuser else READONLY_ROLE if readonly else ADMIN_ROLE

    async def work(role: str) -> None:
        from shared.db.database import check
        from shared.db.programs import check_options
        from shared.db.roles import check_roles

        if not address.is_embedded:
            await check(address)
        connection = await address.connect(as_owner=True)
        try:
            await check_roles(connection, [role])
        finally:
            await connection.close()
        if not address.is_embedded:
            await check_options(address, f"-crole={role}", f"SELECT current_user = '{role}'")  # one of our roles

    if role is not None:
        asyncio.run(work(role))
    # psql cancels a query with Ctrl+C.
    signal.signal(signal.SIGINT, lambda *_: None)
    raise typer.Exit(_run_client(address, "psql", context.args, role=role))


@app.command("dump")
def dump(
    file: Path = typer.Argument(dir_okay=False, writable=True, help="Where to write it, in pg_restore's format."),
) -> None:
    """Write the whole database into a file; Parley may go on running."""
    from shared.db.programs import list_dump_options

    if not file.absolute().parent.is_dir():
        raise typer.BadParameter(f"there is no folder {file.absolute().parent}.")
    address = find_database(read_settings(quiet=True))
    part = file.with_name(f"{file.name}.part")
    options, of_server = asyncio.run(list_dump_options(address))
    with progress("writing the dump"):
        arguments = ["--format=custom", f"--file={part}", *options]
        code = _run_client(address, "pg_dump", arguments, options=of_server)
    if code == 0:
        part.replace(file)
        say(f"{file}: {file.stat().st_size / 1e6:.1f} MB; people's files are not in it, see docs/operations.md")
    else:
        part.unlink(missing_ok=True)
    raise typer.Exit(code)


def restore_dump(file: Path, *, yes: bool) -> None:
    """Replace the database by what `parley dump` has written; does nothing without `yes`."""
    from shared.backup.database import end_history, refuse_others
    from shared.db.connections import PROGRAM_NAME

    if not yes:
        complain("this replaces everything in the database; stop Parley, then say it again with --yes")
        raise typer.Exit(2)
    address = find_database(read_settings(quiet=True))

    async def work() -> int:
        connection = await address.connect(as_owner=True, statement_seconds=0)
        try:
            # A worker that goes on would write what it remembers into other people's turns.
            await refuse_others(connection, PROGRAM_NAME)
            with progress("restoring"):
                code = await asyncio.to_thread(_replace_database, address, file)
            if code == 0:
                await end_history(connection)
        finally:
            await connection.close()
        return code

    code = asyncio.run(work())
    say("restored" if code == 0 else "nothing was changed")
    raise typer.Exit(code)


def _replace_database(address: "Address", file: Path) -> int:
    """Replace all by what a dump has, or nothing; return 0, or the exit code of the program that failed."""
    from shared.db.programs import connection_string, find_program

    psql, pg_restore = (find_program(name, is_embedded=address.is_embedded) for name in ("psql", "pg_restore"))
    reading = [pg_restore, "--clean", "--if-exists", "--file=-", str(file)]
    with connection_string(address, options=_name_actor()) as target:
        writing = [psql, f"--dbname={target}", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-"]
        with subprocess.Popen(writing, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as client:  # noqa: S603  # ours
            script = cast(IO[bytes], client.stdin)
            with suppress(BrokenPipeError):
                script.write(BEGIN)
                script.flush()
            code = subprocess.run(reading, stdout=script, check=False).returncode  # noqa: S603  # as above
            with suppress(BrokenPipeError):
                # Without it, what was read before a fault in the file is rolled back.
                script.write(b"" if code else b"COMMIT;\n")
                script.close()
    return client.returncode or code


def _run_client(
    address: "Address", program: str, arguments: Sequence[str], *, role: str | None = None, options: str = ""
) -> int:
    """Run a program of Postgres on our database, as this role or as the owner, and return its exit code."""
    from shared.db.programs import connection_string, find_program

    path = find_program(program, is_embedded=address.is_embedded)
    with connection_string(address, role=role, options=f"{_name_actor()} {options}") as target:
        # As a child process, because the embedded server stops with the last process that uses it.
        code = os.spawnv(os.P_WAIT, path, [path, f"--dbname={target}", *arguments])  # noqa: S606  # no shell is wanted
    return code if code >= 0 else 128 - code


def _name_actor() -> str:
    # The log of changes names whoever types them, also where several people work as one role.
    actor = name_system_user().replace("\\", "\\\\").replace(" ", "\\ ")
    return f"-cparley.actor=psql:{actor}"
