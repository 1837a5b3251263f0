"""The command `/memory`, with which users list and delete their own memories."""

from sqlalchemy import text

from agent.commands.base import Request, command
from shared.errors import Refusal
from shared.permissions import Permission
from shared.text import cut

MOST_LISTED = 20
USAGE = (
    "Write /memory list, /memory forget ID with an id from that list, or /memory pause and /memory resume:"
    " for this conversation, with the word everywhere for all of yours."
)
PAUSE_PERSON = text("UPDATE users SET is_memory_paused = :paused WHERE id = :user_id")
PAUSE_CONVERSATION = text("""
UPDATE conversations SET is_memory_paused = :paused
WHERE platform = :platform AND platform_channel_id = :channel
  AND platform_server_id IS NOT DISTINCT FROM CAST(:server AS text)
  AND platform_thread_id IS NOT DISTINCT FROM CAST(:thread AS text)
RETURNING id
""")


@command("/memory list|forget ID|pause|resume")
async def show_or_forget_memories(request: Request) -> str:
    """List what I remember about you, forget one of it, or pause remembering."""
    words = request.words or ["list"]
    if words == ["list"]:
        return await _list(request)
    if words[0] in {"pause", "resume"} and words[1:] in ([], ["everywhere"]):
        return await _pause(request, paused=words[0] == "pause", everywhere=len(words) == 2)
    if words[0] != "forget" or len(words) != 2 or not words[1].lstrip("#").isdecimal():
        raise Refusal(USAGE)
    return await _forget(request, int(words[1].lstrip("#")))


async def _pause(request: Request, *, paused: bool, everywhere: bool) -> str:
    place = request.place
    if not everywhere and not place.is_direct:
        # It would count for everybody in the channel.
        request.require(Permission.ADMIN)
    given = {"platform": place.platform, "channel": place.channel, "server": place.server, "thread": place.thread}
    async with request.app.database.transaction() as session:
        if everywhere:
            await session.execute(PAUSE_PERSON, {"paused": paused, "user_id": request.user.id})
        elif not (await session.execute(PAUSE_CONVERSATION, given | {"paused": paused})).all():
            raise Refusal("There is no conversation here yet.")
    where = "of what you say anywhere" if everywhere else "of this conversation"
    if paused:
        return f"From now on I remember nothing {where}, except what you ask me to."
    return f"From now on I remember things {where} again."


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
