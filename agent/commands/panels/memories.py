"""The panel of a user's memories."""

from agent.commands.base import Request
from agent.commands.panels.base import Entry, Listed, panel
from shared.text import to_id

MOST_LISTED = 20


async def forget(request: Request, entry_id: str) -> str:
    """Forget one of the person's memories."""
    memories = request.app.memory.of_user(request.user.id, request.place, None)
    if await memories.forget(to_id(entry_id) or 0):
        return "I have forgotten it."
    return "It was forgotten before."


@panel("memories", "What I remember about you", verb="Forget", empty="Nothing yet.", remove=forget)
async def list_memories(request: Request) -> Listed:
    """List what is remembered, the newest first."""
    memories = request.app.memory.of_user(request.user.id, request.place, None)
    own_memories = await memories.list_all(MOST_LISTED + 1)
    more = "There is more: /memory list shows it." if len(own_memories) > MOST_LISTED else ""
    return Listed([Entry(str(memory.id), memory.content) for memory in own_memories[:MOST_LISTED]], more)
