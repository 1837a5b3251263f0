"""The programs of Postgres, such as psql and pg_dump: which one to run, and how it is told the address."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import asyncpg

from shared.db.connections import CONNECT_SECONDS, STATEMENT_SECONDS
from shared.db.database import Address
from shared.db.embedded.server import find_programs
from shared.db.hosts import make_url
from shared.errors import ConfigurationError

# Where Debian's packages put the programs of each version.
DEBIAN = "/usr/lib/postgresql/{major}/bin/{program}"
IS_UNBOUND = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
ALL_ROWS = "-cparley.rows=all"
VERSION = re.compile(r"\(PostgreSQL\) (\d+)")


def find_program(program: str, *, is_embedded: bool, major: int | None = None) -> str:
    """Return the path of the program; for the embedded server, of its own version.

    With `major` it is a program of that version if there is one, else of a later one, which works with older servers,
    too. Raises `ConfigurationError` with the remedy if there is none.
    """
    bundled, installed = find_programs(), shutil.which(program)
    if bundled and is_embedded:
        return str(bundled / program)
    debian = DEBIAN.format(major=major, program=program)
    paths = [path for path in (debian, installed, bundled and str(bundled / program)) if path and Path(path).exists()]
    if major is None and paths:
        return paths[0]
    versions: dict[str, int] = {}
    for path in paths:
        output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603  # theirs
        match = VERSION.search(output)
        versions[path] = int(match[1]) if match else 0
    fitting = [path for path in paths if major is not None and versions[path] >= major]
    if not fitting:
        package = "postgresql-client" if major is None else f"postgresql-client-{major}"
        raise ConfigurationError(f"{program} {major or ''} is not installed; on Debian: apt-get install {package}.")
    return min(fitting, key=versions.__getitem__)


async def list_dump_options(address: Address) -> tuple[list[str], str]:
    """Return the options with which pg_dump sees all rows, and those of the server that go with them.

    Row-level security binds an owner who is no superuser. Raises `ConfigurationError` where a pooler drops what says
    that all rows are meant: the dump would lack what is remembered.
    """
    connection = await address.connect(as_owner=True)
    try:
        if await connection.fetchval(IS_UNBOUND):
            return [], ""
    finally:
        await connection.close()
    await check_options(address, ALL_ROWS, "SELECT current_setting('parley.rows', true) = 'all'")
    return ["--enable-row-security"], ALL_ROWS


async def check_options(address: Address, options: str, query: str) -> None:
    """Raise `ConfigurationError` unless the server obeys options that are named at connecting, as the query tells.

    The programs of Postgres can be told a role and settings only there, and a pooler may drop them.
    """
    arguments = address.asyncpg_arguments(as_owner=True)
    try:
        connection = await asyncpg.connect(timeout=CONNECT_SECONDS, server_settings={"options": options}, **arguments)
        try:
            is_obeyed = await connection.fetchval(query, timeout=STATEMENT_SECONDS)
        finally:
            await connection.close()
    except asyncpg.PostgresError:
        is_obeyed = False
    if not is_obeyed:
        raise ConfigurationError(
            "DATABASE_URL leads to a pooler, which drops the role of psql and pg_dump; name the address of Postgres "
            "itself for them: DATABASE_URL=… parley …."
        )


@contextmanager
def connection_string(address: Address, *, role: str | None = None, options: str = "") -> Iterator[str]:
    """Yield the connection string of a role, or of the owner, with these options of the server.

    The password is in a file, because all users of a machine see arguments.
    """
    url = make_url(address.libpq(role=role) if role else address.libpq(as_owner=True))
    if role and not address.is_embedded:
        options = f"-crole={role} {options}"
    if options:
        url = url.with_parameters({"options": f"{url.query.get('options', '')} {options}".strip()})
    password = url.password
    if not password:
        yield url.to_text(hide_password=False)
        return
    with NamedTemporaryFile("w", prefix="parley-pgpass-", encoding="utf-8") as file:
        escaped = str(password).replace("\\", "\\\\").replace(":", "\\:")
        file.write(f"*:*:*:*:{escaped}\n")
        file.flush()
        yield url.set(password=None).with_parameters({"passfile": file.name}).to_text(hide_password=False)
