"""The programs of Postgres, such as psql and pg_dump: which one to run, and how it is told the address."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from sqlalchemy import URL, make_url

from shared.db.database import Address
from shared.db.embedded import find_programs
from shared.errors import ConfigurationError

# Where Debian's packages put the programs of each version.
DEBIAN = "/usr/lib/postgresql/{major}/bin/{program}"
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
    found = {path: _version_of(path) for path in paths}
    fitting = [path for path in paths if major is not None and found[path] >= major]
    if not fitting:
        package = "postgresql-client" if major is None else f"postgresql-client-{major}"
        raise ConfigurationError(f"{program} {major or ''} is not installed; on Debian: apt-get install {package}.")
    return min(fitting, key=found.__getitem__)


def _version_of(path: str) -> int:
    output = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603  # theirs
    found = VERSION.search(output)
    return int(found[1]) if found else 0


@contextmanager
def connection_string(address: Address, *, role: str | None = None, options: str = "") -> Iterator[str]:
    """Yield the connection string of a role, or of the owner, with these options of the server.

    The password is in a file, because all users of a machine see arguments.
    """
    url = make_url(address.libpq(role=role) if role else address.libpq(as_owner=True))
    if options:
        url = url.update_query_dict({"options": f"{url.query.get('options', '')} {options}".strip()})
    password = url.password
    if not password:
        yield _render(url)
        return
    with NamedTemporaryFile("w", prefix="parley-pgpass-", encoding="utf-8") as file:
        escaped = str(password).replace("\\", "\\\\").replace(":", "\\:")
        file.write(f"*:*:*:*:{escaped}\n")
        file.flush()
        without = URL.create(
            url.drivername, url.username, None, host=url.host, port=url.port, database=url.database, query=url.query
        )
        yield _render(without.update_query_dict({"passfile": file.name}))


def _render(url: URL) -> str:
    # libpq reads the `+` that stands for a space in SQLAlchemy's own text as a plus sign.
    address, question_mark, query = url.render_as_string().partition("?")
    return f"{address}{question_mark}{query.replace('+', '%20')}"
