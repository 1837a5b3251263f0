"""Tools for the memories about the user."""

import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from shared.errors import NotFound
from shared.messages import Permission
from shared.tools import ToolContext, tool

if TYPE_CHECKING:
    from shared.memory.memories import RecalledMemory, StoredMemory

# Numbers out of range are clamped, because limits in the schema would cost tokens in every prompt.
MAX_RECALLED = 20
MAX_SKIPPED = 100_000
PAGE = 50


# `acts=False`: what is remembered is the person's alone, and keeps who may have written it.
@tool(
    requires=Permission.GUEST, repeatable=True, acts=False, words=("Remembering “{content}”", "Remembered “{content}”")
)
async def remember(context: ToolContext, content: str, everywhere: bool = False) -> dict[str, Any]:
    """Keep a fact about the user; `everywhere` if they wish.

    Example: {"content": "Ann's cat is called Tom."} -> "memory_id":
    """
    memory = await context.memory.remember(content, everywhere=everywhere)
    return {"memory_id": memory.id, "content": memory.content}


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    reads_private=True,
    words=("Recalling what I know of “{query}”", "Recalled what I know of “{query}”"),
)
async def recall(
    context: ToolContext, query: str, k: int = 5, since: date | None = None, until: date | None = None
) -> dict[str, Any]:
    """Search the user's memories.

    Example: {"query": "tea"} -> green tea
    """
    memories = await context.memory.recall(
        query,
        min(max(k, 1), MAX_RECALLED),
        since=_midnight(context, since),
        # The last day belongs to the range.
        until=_midnight(context, until, days=1),
    )
    # Others may have written what was said in a channel.
    is_untrusted = any(memory.scope == "conversation" or memory.shows_stranger for memory in memories)
    note = {"untrusted": True} if is_untrusted else {}
    return {"memories": list(_fitting(context, memories)), **note}


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    reads_private=True,
    words=("Listing what I remember", "Listed what I remember"),
)
async def list_memories(context: ToolContext, skip: int = 0) -> dict[str, Any]:
    """List the user's memories.

    Example: {} -> green tea
    """
    skip = min(max(skip, 0), MAX_SKIPPED)
    memories = await context.memory.list_all(limit=PAGE + 1, skip=skip)
    entries = list(_fitting(context, memories[:PAGE]))
    more: dict[str, Any] = (
        {"note": f"There are more: skip {skip + len(entries)}."} if len(entries) < len(memories) else {}
    )
    if any(memory.author == "stranger" for memory in memories):
        more["untrusted"] = True
    return {"memories": entries, **more}


@tool(requires=Permission.GUEST, repeatable=True, words=("Forgetting memory {memory_id}", "Forgot memory {memory_id}"))
async def forget(context: ToolContext, memory_id: int) -> dict[str, Any]:
    """Delete a memory.

    Example: {"memory_id": 1} -> true
    """
    if not await context.memory.forget(memory_id):
        raise NotFound(what="memory")
    return {"memory_id": memory_id, "forgotten": True}


def _midnight(context: ToolContext, day: date | None, days: int = 0) -> datetime | None:
    if day is None:
        return None
    try:
        zone = ZoneInfo(context.user.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        zone = ZoneInfo("UTC")
    # Days at the ends of the calendar have no midnight in all zones.
    day = min(max(day, date(1900, 1, 1)), date(9000, 1, 1))
    return datetime.combine(day + timedelta(days=days), time(), zone)


def _fitting(context: ToolContext, memories: "Iterable[StoredMemory | RecalledMemory]") -> Iterator[dict[str, Any]]:
    """Yield entries up to the size limit of results, so that the result is not cut in the middle of one."""
    # Imported here, where it has been imported by what has found the memories: who lists tools has found none.
    from shared.memory.memories import RecalledMemory

    room = context.app_settings.tool_result_max_chars * 3 // 4
    for position, memory in enumerate(memories):
        entry = {"memory_id": memory.id, "content": memory.content, "said_at": f"{memory.said_at:%Y-%m-%d}"}
        if isinstance(memory, RecalledMemory):
            # Who said it, and the messages around it.
            speaker = "you" if memory.is_from_bot else memory.speaker
            entry |= {"speaker": speaker} if speaker else {}
            entry |= {
                side: f"{'you' if neighbour.is_from_bot else neighbour.speaker or 'somebody'}: {neighbour.content}"
                for side, neighbour in (("before", memory.before), ("after", memory.after))
                if neighbour is not None
            }
        room -= len(json.dumps(entry, ensure_ascii=False))
        if room < 0 and position:
            return
        yield entry
