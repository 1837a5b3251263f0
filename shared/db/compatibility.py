"""Whether the program works with the tables: they are at least at its own revision, and still compatible with it.

While a newer release is rolled out, its tables serve the programs of the release before.
"""

from collections.abc import Mapping

from sqlalchemy import text

from shared.db.driver import Session

REVISION = text("SELECT version_num FROM alembic_version")
# Only a newer release has this table; see its comment in the database.
HAS_OLDEST = text("SELECT to_regclass('schema_compatibility') IS NOT NULL")
OLDEST = text("SELECT oldest_revision FROM schema_compatibility")
HAS_TABLE = text("SELECT to_regclass(:table) IS NOT NULL")


def version_table_of(platform: str) -> str:
    """Return the table with the revision of a platform's own tables."""
    return f"alembic_version_{platform}"


async def find_old_platform(session: Session, newest: Mapping[str, str]) -> str | None:
    """Return which platform's own tables are older than these revisions, with the remedy; None if none are."""
    for platform, mine in newest.items():
        table = version_table_of(platform)
        revision = None
        if (await session.execute(HAS_TABLE, {"table": table})).scalar_one():
            revision = (await session.execute(text(f"SELECT version_num FROM {table}"))).scalar_one()
        if revision is None or revision < mine:
            return (
                f"The tables of {platform} are at revision {revision or 'none'}, it needs {mine}; run: parley migrate."
            )
    return None


async def find_incompatibility(session: Session, mine: str) -> str | None:
    """Return why a program of the revision `mine` can't use the tables, with the remedy; None if it can."""
    row = (await session.execute(REVISION)).one_or_none()
    revision = "none" if row is None else row.version_num
    if row is None or revision < mine:
        return f"The tables are at revision {revision}, the program needs {mine}; run: parley migrate."
    if revision == mine or not (await session.execute(HAS_OLDEST)).scalar_one():
        return None
    oldest = (await session.execute(OLDEST)).scalar_one()
    if mine >= oldest:
        return None
    return (
        f"The tables are at revision {revision} of a newer release, which works with programs from revision {oldest} "
        f"on; this one has {mine}: install the newer release."
    )
