"""What a transaction has written into the log of changes, and the way back."""

from shared.db.driver import Session
from shared.db.statements import load_statements

statements = load_statements(__file__)

# What people call the actions of the log.
VERBS = {"insert": "added", "update": "changed", "delete": "removed", "read": "read"}


async def read_latest_entry(session: Session) -> int:
    """Return the latest entry's id, 0 if there is none."""
    return int((await session.execute(statements.read_latest_entry)).scalar_one())


async def list_own_entries(session: Session, account: str, latest: int) -> tuple[int, ...]:
    """Return the entries that this transaction has written since the `latest`, in the order of taking them back."""
    rows = await session.execute(statements.list_own_entries, {"account": account, "latest": latest})
    return tuple(rows.scalars())


async def undo(session: Session, entry: int | None) -> str:
    """Take back a change of the log, and say what was done."""
    return str((await session.execute(statements.undo, {"entry": entry})).scalar_one())
