"""A diary for each person."""

from sqlalchemy import text

from shared.messages import Permission
from shared.tools import ToolContext, tool

WRITE = text("INSERT INTO diary_entries (user_id, entry) VALUES (:user_id, :entry)")
READ = text("SELECT entry FROM diary_entries WHERE user_id = :user_id ORDER BY id")


@tool(requires=Permission.GUEST, acts=False)
async def write(context: ToolContext, entry: str) -> dict[str, list[str]]:
    """Add an entry to the person's diary, and return all of it."""
    async with context.transaction() as session:
        await session.execute(WRITE, {"user_id": context.user.id, "entry": entry})
        return {"entries": list((await session.execute(READ, {"user_id": context.user.id})).scalars())}
