"""The command `/memory`, with which users list and delete their own memories."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec.structs import asdict
from pydantic import Field

from agent.commands.base import Answered, Command, Request
from agent.commands.signature import Text
from agent.people.billing.budget import may_search_by_meaning
from agent.personal_data.confirmations import ask_for_confirmation
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.memory.own import OwnMemory, count_own, get_own, list_own
from shared.memory.visibility import Visibility
from shared.messages import Permission
from shared.text import abbreviate, cut, to_id

statements = load_statements(__file__)

MOST_LISTED = 20
# So many memories are forgotten at once by their words.
MOST_FORGOTTEN = 1000
# So many are named that may be about the same in other words; which of them are, the person decides.
MOST_SIMILAR = 5
MAX_ID_CHARS = 20
USAGE = (
    "Write /memory list, /memory forget ID with an id from that list, or several, /memory forget about WORDS,"
    " /memory forget all,"
    " or /memory pause and /memory resume: for this conversation, with the word everywhere for all of yours."
)
What = Annotated[Text, Field(description='An id from the list, or several, "about" some words, or "all"')]
Where = Annotated[Literal["everywhere"] | None, Field(description="Of what you say anywhere, not only here")]


memory = Command(
    "memory",
    'List what I remember about you, forget an id of it, "about" some words or "all", or pause remembering.',
    hint=USAGE,
)


@memory.subcommand("list", is_default=True)
async def list_memories(request: Request) -> str:
    """List what I remember about you."""
    memories = request.app.memory.of_user(request.user.id, request.place, None)
    own_memories = await memories.list_all()
    if not own_memories:
        return "I remember nothing about you here."
    lines = [f"{memory.id}: {cut(memory.content, 150)}" for memory in own_memories[:MOST_LISTED]]
    if len(own_memories) > MOST_LISTED:
        lines.append(f"… and {len(own_memories) - MOST_LISTED} more.")
    return "\n".join(["I remember about you:", *lines])


@memory.subcommand("forget")
async def forget_memories(
    request: Request,
    what: Annotated[Text, Field(description='An id from the list, or several, "about" words, or "all"')],
) -> str | Answered:
    """Forget memories, and what else was made of the messages they come from."""
    match what.split():
        case ["all"]:
            async with request.app.database.transaction() as session:
                count = await count_own(session, request.user.id)
                number = await ask_for_confirmation(session, request.user.id, "/memory forget all")
            # Also without memories there may be summaries.
            return Answered(
                f"I would forget all of your memories in all places ({count:,}), and what was made of your messages:"
                " facts and summaries. The messages themselves stay in the history; /erase me removes these, too.",
                confirmation=number,
            )
        case ["about", _, *_]:
            return await _ask_to_forget_about(request, what.split(maxsplit=1)[1])
        case [word] if _is_id(word):
            digits = word.strip("#,")
            memories, memory_id = request.app.memory.of_user(request.user.id, request.place, None), to_id(digits)
            if memory_id is not None and await memories.forget(memory_id):
                return f"I have forgotten memory {memory_id}."
            return f"You have no memory with the id {abbreviate(digits, MAX_ID_CHARS)}; /memory list shows them."
        case words if all(_is_id(word) for word in words):
            ids = [memory_id for word in words if (memory_id := to_id(word.strip("#,"))) is not None]
            async with request.app.database.transaction() as session:
                own = await get_own(session, Visibility(request.user.id, request.place), ids)
                if not own:
                    return "You have no memories with these ids; /memory list shows them."
                ids = [memory.id for memory in own]
                number = await ask_for_confirmation(session, request.user.id, "/memory forget", memory_ids=ids)
            return Answered("\n".join(_to_lines(own)), confirmation=number)
    raise Refusal(USAGE)


@memory.subcommand("pause")
async def pause_memory(request: Request, where: Where = None) -> str:
    """Remember nothing of this conversation, or of what you say anywhere, except what you ask me to."""
    return await _pause(request, paused=True, everywhere=where is not None)


@memory.subcommand("resume")
async def resume_memory(request: Request, where: Where = None) -> str:
    """Remember things of this conversation again, or of what you say anywhere."""
    return await _pause(request, paused=False, everywhere=where is not None)


async def _pause(request: Request, *, paused: bool, everywhere: bool) -> str:
    place = request.place
    if not everywhere and not place.is_direct:
        # It would count for everybody in the channel.
        request.require(Permission.ADMIN)
    async with request.app.database.transaction() as session:
        if everywhere:
            await session.execute(statements.pause_memory, {"paused": paused, "user_id": request.user.id})
        elif not await session.scalar(statements.pause_memory_here, asdict(place) | {"paused": paused}):
            raise Refusal("There is no conversation here yet.")
    where = "of what you say anywhere" if everywhere else "of this conversation"
    if paused:
        return f"From now on I remember nothing {where}, except what you ask me to."
    return f"From now on I remember things {where} again."


async def _ask_to_forget_about(request: Request, words: str) -> Answered | str:
    visibility = Visibility(request.user.id, request.place)
    async with request.app.database.statement() as connection:
        is_paid = await may_search_by_meaning(connection, request.user.id)
    # Without a search by meaning, what has the words is forgotten all the same.
    similar = await request.app.memory.find_similar(visibility, words, limit=MOST_LISTED) if is_paid else []
    async with request.app.database.transaction() as session:
        own = await list_own(session, visibility, words, limit=MOST_FORGOTTEN)
        ids = [memory.id for memory in own]
        others = [memory for memory in similar if memory.id not in ids][:MOST_SIMILAR]
        if not own:
            nothing = f'I find no memory of yours here with the words "{cut(words, 100)}"; /memory list shows some.'
            return "\n".join([nothing, *_to_similar(others)])
        number = await ask_for_confirmation(session, request.user.id, "/memory forget", memory_ids=ids)
    return Answered("\n".join([*_to_lines(own), *_to_similar(others)]), confirmation=number)


def _is_id(word: str) -> bool:
    digits = word.strip("#,")
    return digits.isascii() and digits.isdecimal()


def _to_similar(similar: Sequence[OwnMemory]) -> list[str]:
    if not similar:
        return []
    ids = " ".join(str(memory.id) for memory in similar)
    return [
        f"Perhaps these are about it, in other words. /memory forget {ids} forgets them; leave out the ids of others:",
        *(
            f"{memory.id}: {memory.said_at:%d %B %Y}{_said_by(memory)}: {cut(memory.content, 150)}"
            for memory in similar
        ),
    ]


def _to_lines(memories: Sequence[OwnMemory]) -> list[str]:
    lines = [
        f"- {memory.said_at:%d %B %Y}{_said_by(memory)}: {cut(memory.content, 150)}"
        for memory in memories[:MOST_LISTED]
    ]
    if len(memories) > MOST_LISTED:
        lines.append(f"… and {len(memories) - MOST_LISTED:,} more.")
    return [
        "I would forget this, and what else was made of these messages, such as the answers, facts and summaries:",
        *lines,
    ]


def _said_by(memory: OwnMemory) -> str:
    if memory.is_from_bot:
        return ", I said"
    return f", {memory.speaker} said" if memory.source == "turn" and memory.speaker else ""
