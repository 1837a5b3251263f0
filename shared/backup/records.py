"""What is known of backups: each try is a row of `backups`; `judge` says whether they are in order."""

import asyncio
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import asyncpg

from shared.backup.archive import Manifest
from shared.db.database import Address
from shared.db.driver import to_sql
from shared.db.statements import load_statements
from shared.errors import ParleyError
from shared.redaction import redact_text
from shared.text import clean

if TYPE_CHECKING:
    from sqlalchemy import TextClause

statements = load_statements(__file__)

# For whoever shows them by a connection of their own.
LIST_BACKUPS, LAST_BACKUPS = statements.list_backups, statements.read_last_backups
# From when on a backup is too old to be the last one.
MOST_AGE = timedelta(days=7)
COMMAND = "parley backup FILE --live"


async def note_backup(address: Address, path: Path, manifest: Manifest) -> None:
    """Note an archive that was written; its path is absolute."""
    size = (await asyncio.to_thread(path.stat)).st_size
    losses = len(manifest.missing) + len(manifest.damaged)
    parameters = (platform.node(), clean(str(path)), manifest.made_at, size, losses)
    await _note(address, statements.note_backup, parameters)


async def note_failure(address: Address, path: Path, error: str) -> None:
    """Note an archive that could not be written."""
    await _note(address, statements.note_failure, (platform.node(), clean(str(path)), redact_text(error)))


async def note_verification(address: Address, manifest: Manifest) -> None:
    """Note that an archive of this moment could be restored."""
    await _note(address, statements.note_verification, (manifest.made_at,))


def judge(last: Mapping[str, Any] | None) -> tuple[Literal["ok", "off", "warn"], str]:
    """Return whether backups are in order, and why; `last` is the row of `read_last_backups`, if there is one."""
    if last is None:
        return "off", f"none was made by `parley backup`; `{COMMAND}` makes one while Parley runs"
    if last["error"] is not None:
        good = f"the last archive is of {_to_time(last['made_at'])}" if last["made_at"] else "there is none yet"
        return "warn", f"the last try, {_to_time(last['tried_at'])}, failed: {last['error'].rstrip('.')}; {good}"
    verified = "verified" if last["verified_at"] else "not verified (`parley backup verify FILE`)"
    sentence = f"the last one is of {_to_time(last['made_at'])}, {verified}"
    return ("warn", f"{sentence}; make another: `{COMMAND}`") if last["age"] > MOST_AGE else ("ok", sentence)


def _to_time(moment: datetime) -> str:
    return f"{moment:%d %B %Y %H:%M} UTC"


async def _note(address: Address, statement: "TextClause", parameters: Sequence[Any]) -> None:
    # The archive is there, or is not, whatever becomes of the note; and the tables may be those of a release before.
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ParleyError):
        connection = await address.connect(as_owner=True)
        try:
            await connection.execute(to_sql(statement), *parameters)
        finally:
            await connection.close()
