"""`parley version`: what runs here, for a report of a fault."""

import asyncio
import platform
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import complain, show_fields
from adapters.cli.endings import UNANSWERED
from adapters.cli.opening import find_database, read_settings
from shared import __version__
from shared.db.statements import load_statements
from shared.errors import ParleyError

if TYPE_CHECKING:
    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer()


@app.command("version")
def show_version() -> None:
    """Show the versions of Parley, Python, Postgres and pgvector, and the revision of the tables."""
    settings = read_settings(quiet=True)
    versions: dict[str, str | None] = {"Parley": __version__, "Python": platform.python_version()}
    try:
        versions |= asyncio.run(_read_database(settings))
    except ParleyError as error:
        complain(str(error))
        raise typer.Exit(UNANSWERED) from None
    finally:
        show_fields(versions)


async def _read_database(settings: "Settings") -> dict[str, str | None]:
    """Return the versions of the database; nothing is made where there is none yet."""
    if settings.database_url is None and not (settings.parley_home / "postgres").exists():
        return {"Postgres": "none yet: the first start makes it"}
    from shared.db.database import check
    from shared.db.driver import to_sql
    from shared.db.migrations import find_revision, newest_revision

    address = find_database(settings)
    if not address.is_embedded:
        # Says in a sentence why it can't be reached.
        await check(address)
    connection = await address.connect(as_owner=True)
    try:
        row = await connection.fetchrow(to_sql(statements.read_versions))
    finally:
        await connection.close()
    revision, newest = await find_revision(address), newest_revision()
    remark = "" if revision == newest else f" (this program's: {newest}; run: parley migrate)"
    return {
        "Postgres": row["postgres"],
        "pgvector": row["pgvector"],
        "tables": f"{revision or 'none'}{remark}",
    }
