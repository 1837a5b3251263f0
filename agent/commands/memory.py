"""The command `/memory`, with which users list and delete their own memories."""

from agent.commands.base import Request, command
from shared.errors import Refusal
from shared.text import cut

MOST_LISTED = 20
USAGE = "Write /memory list, or /memory forget ID with an id from that list."


@command("/memory list|forget ID")
async def show_or_forget_memories(request: Request) -> str:
    """List what I remember about you, or forget one of it."""
    words = request.words or ["list"]
    if words == ["list"]:
        return await _list(request)
    if words[0] != "forget" or len(words) != 2 or not words[1].lstrip("#").isdecimal():
        raise Refusal(USAGE)
    return await _forget(request, int(words[1].lstrip("#")))


async def _list(request: Request) -> str:
    memories = request.app.memory.of_user(request.user.id, request.place, None)
    found = await memories.list_all()
    if not found:
        return "I remember nothing about you here."
    lines = [f"{each.id}: {cut(each.content, 150)}" for each in found[:MOST_LISTED]]
    if len(found) > MOST_LISTED:
        lines.append(f"… and {len(found) - MOST_LISTED} more.")
    return "\n".join(["I remember about you:", *lines])


async def _forget(request: Request, memory_id: int) -> str:
    memories = request.app.memory.of_user(request.user.id, request.place, None)
    if memory_id < 2**63 and await memories.forget(memory_id):
        return f"I have forgotten memory {memory_id}."
    return f"You have no memory with the id {memory_id}; /memory list shows them."
