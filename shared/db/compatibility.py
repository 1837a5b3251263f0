"""Whether the program works with the tables: they are at least at its own revision, and still compatible with it.

While a newer release is rolled out, its tables serve the programs of the release before.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from sqlalchemy import text

from shared.db.driver import Session

REVISION = text("SELECT version_num FROM alembic_version")
# Only a newer release has this table; see its comment in the database.
HAS_OLDEST = text("SELECT to_regclass('schema_compatibility') IS NOT NULL")
OLDEST = text("SELECT oldest_revision FROM schema_compatibility")
HAS_TABLE = text("SELECT to_regclass(:table) IS NOT NULL")

DECLARED = re.compile(r'^(revision|down_revision) = (?:"(\w+)"|None)$', re.MULTILINE)


@lru_cache(maxsize=32)
def list_revisions(folder: Path) -> tuple[str, ...]:
    """Return the revisions of a folder in the order in which they run: their files name the one before."""
    after: dict[str | None, str] = {}
    for path in folder.glob("[0-9]*.py"):
        found = dict(DECLARED.findall(path.read_text("utf-8")))
        after[found["down_revision"] or None] = found["revision"]
    revisions: list[str] = []
    while (following := after.get(revisions[-1] if revisions else None)) is not None:
        revisions.append(following)
    return tuple(revisions)


def version_table_of(platform: str) -> str:
    """Return the table with the revision of a platform's own tables."""
    return f"alembic_version_{platform}"


async def find_old_platform(session: Session, folders: Mapping[str, Path]) -> str | None:
    """Return which platform's own tables are older than its migrations, with the remedy; None if none are."""
    for platform, folder in folders.items():
        *older, mine = list_revisions(folder)
        table = version_table_of(platform)
        revision = None
        if (await session.execute(HAS_TABLE, {"table": table})).scalar_one():
            revision = (await session.execute(text(f"SELECT version_num FROM {table}"))).scalar_one()
        if revision is None or revision in older:
            return (
                f"The tables of {platform} are at revision {revision or 'none'}, it needs {mine}; run: parley migrate."
            )
    return None


async def find_incompatibility(session: Session, revisions: Sequence[str]) -> str | None:
    """Return why a program with these revisions can't use the tables, with the remedy; None if it can.

    A revision that the program does not know is of a newer release.
    """
    *older, mine = revisions
    row = (await session.execute(REVISION)).one_or_none()
    revision = "none" if row is None else row.version_num
    if row is None or revision in older:
        return f"The tables are at revision {revision}, the program needs {mine}; run: parley migrate."
    if revision == mine or not (await session.execute(HAS_OLDEST)).scalar_one():
        return None
    oldest = (await session.execute(OLDEST)).scalar_one()
    if oldest in revisions:
        return None
    return (
        f"The tables are at revision {revision} of a newer release, which works with programs from revision {oldest} "
        f"on; this one has {mine}: install the newer release."
    )
