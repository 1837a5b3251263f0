"""Builds the prompt of a turn, from the history that fits into it, ordered so that providers' prompt caches hit.

System prompt and tools stay byte-identical between turns. The history is append-only and trimmed in blocks. Parts that
change with every turn (time, memories) come last, together with the new message.

What the summary holds leaves the history in blocks. What it does not hold yet stays, until the model's own context
window is full; meanwhile a summary is asked for.
"""

from collections import deque
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby, takewhile
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct, field
from msgspec.structs import replace

from agent.journal.files import FROM_OTHERS
from agent.journal.quotes import (
    MEMORY_CHARS,
    quote,
    to_memory_line,
    to_speaker,
    with_speaker,
    without_context_tags,
)
from agent.journal.steps import PastStep, Step
from agent.llm.completions import IMAGE_TOKENS
from agent.people.participants import Participants, ResolvedConversation, ResolvedPersona, ResolvedUser
from agent.prompts import prompts
from agent.tools.calls import to_shown_arguments
from agent.tools.offer import Offer, to_wire_name
from agent.turn.context.images import PromptImages, find_named, with_images
from agent.turn.context.replied_to import RepliedTo
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.log import get_logger
from shared.memory.memories import Memories, MemoryOfUser, RecalledMemory, WordMatches
from shared.messages import PlatformContext
from shared.text import count_tokens, cut

statements = load_statements(__file__)

# The context window of a model that litellm does not know.
UNKNOWN_WINDOW = 32_000
# Room for the memories, the message and what the text of a prompt is wrapped in.
OTHER_TOKENS = 2000
# After a drop half of the window is free: the beginning of the prompt stays the same until as much was said again.
KEPT_SHARE = 0.5
# Of the result of a tool in a past turn; the model has answered with it, and may call the tool again.
PAST_RESULT_CHARS = 1500

log = get_logger()

ModelMessage = dict[str, Any]


class PromptParts(Struct, frozen=True):
    """The inputs for the prompt of one message; `message` is the journal step of that message.

    `instructions` is the text that the offered modules add to the system prompt.
    """

    user: ResolvedUser
    persona: ResolvedPersona
    conversation: ResolvedConversation
    history: Sequence[PastStep]
    message: PastStep
    images: PromptImages = field(default_factory=PromptImages)
    instructions: str = ""
    platform_context: PlatformContext = field(default_factory=PlatformContext)
    replied_to: RepliedTo | None = None

    @property
    def is_shared(self) -> bool:
        """Return whether other users can read the conversation."""
        return not self.conversation.place.is_direct

    def describe(self, memories: Sequence[RecalledMemory]) -> dict[str, Any]:
        """Return what the prompt is made of with these memories, for the operator: numbers and ids, no text."""
        conversation, history = self.conversation, self.history
        return {
            "history": {
                "turns": len({past_step.turn_id for past_step in history}),
                # What a request brings is of no turn.
                "first_turn": history[0].turn_id if history and history[0].turn_id > 0 else None,
                "tokens": count_history(history),
            },
            "summary": {
                "up_to_turn": conversation.summarized_turn_id if conversation.summary else None,
                "tokens": count_tokens(conversation.summary or ""),
            },
            "memories": [
                {"id": memory.id, "score": round(memory.score, 3), "scope": memory.scope} for memory in memories
            ],
            "image_ids": sorted(self.images.data),
            "replied_to_turn": self.replied_to.turn_id if self.replied_to else None,
            "earlier_messages": len(self.platform_context.earlier),
        }


class Context(Struct, frozen=True):
    """The prompt of a turn up to and including the new message; the turn's own steps are appended later.

    `images` are the images in its messages as `data:` URLs, by file id. `reasons` says what it was made of, for the
    operator: numbers and ids, no text. `shows_untrusted` is True when it holds images or messages of a channel, whose
    text others may have written; `shows_private` when it holds the user's memories or images from a direct
    message. `own_memories` are the texts of those memories that the user has written.
    """

    messages: tuple[ModelMessage, ...]
    images: Mapping[int, str] = field(default_factory=dict)
    shows_untrusted: bool = False
    shows_private: bool = False
    own_memories: tuple[str, ...] = ()
    reasons: Mapping[str, Any] = field(default_factory=dict)


async def find_by_words(
    memory: Memories, participants: Participants, message: PastStep, *, history: Sequence[PastStep], limit: int
) -> WordMatches | None:
    """Return what `recall` finds by words, None where nothing is remembered: it costs nothing, whoever may ask."""
    # A search is made for nothing where neither the person nor the place has any.
    if not participants.have_memories or limit < 1:
        return None
    # Messages that the prompt shows need not be recalled.
    shown_from = (*history, message)[0].turn_id
    return await _memories_of(memory, participants).find_by_words(message.step.content, limit, shown_from=shown_from)


async def recall(
    memory: Memories, participants: Participants, message: PastStep, by_words: Awaitable[WordMatches | None]
) -> list[RecalledMemory]:
    """Return the memories that match a message; not to be called in a transaction, as it waits for an embedder.

    An embedder is paid and gets the text, so the turn must have been let pass; `by_words` is what was found without it.
    """
    matches = await by_words
    if matches is None:
        return []
    return await _memories_of(memory, participants).recall_by_meaning(message.step.content, matches)


def _memories_of(memory: Memories, participants: Participants) -> MemoryOfUser:
    user, conversation = participants.user, participants.conversation
    return memory.of_user(user.id, conversation.place, conversation.id)


def assemble(parts: PromptParts, memories: Sequence[RecalledMemory], *, now: datetime) -> Context:
    """Build the prompt from its parts and these memories."""
    images, message, replied_to = parts.images, parts.message, parts.replied_to
    content = _to_content(message.step)
    if parts.is_shared:
        content = with_speaker(parts.user.name, content)
    block = to_context_block(parts.user, memories, parts.platform_context, now=now, replied_to=replied_to)
    texts = [parts.persona.system_prompt]
    if parts.instructions:
        texts.append(parts.instructions)
    if parts.conversation.summary:
        texts.append(f"{prompts().turn.summary_heading}\n{parts.conversation.summary}")
    messages = [{"role": "system", "content": "\n\n".join(texts)}]
    for _, turn in groupby(parts.history, key=lambda past_step: past_step.turn_id):
        messages += to_past_turn(list(turn), images, is_shared=parts.is_shared)
    note = prompts().turn.image_unopened
    unopened = [note.format(file_id=file_id) for file_id in images.unopened.get(message.turn_id, ())]
    messages.append(_to_message("\n\n".join([content, *unopened, block]), images.by_turn.get(message.turn_id, ())))
    # Others may have written what was said in a channel.
    shows_untrusted = (
        bool(images.data)
        or shows_recordings(content)
        or any(not is_own(memory) for memory in memories)
        or (parts.is_shared and replied_to is not None and not replied_to.is_own)
    )
    # In a shared channel nothing is private: memories come from the same server, and everybody can see the images.
    shows_private = not parts.is_shared and bool(memories or images.data)
    return Context(
        tuple(messages),
        images.data,
        shows_untrusted=shows_untrusted,
        shows_private=shows_private,
        own_memories=tuple(memory.content for memory in memories if is_own(memory) and not memory.is_from_bot),
        reasons=parts.describe(memories),
    )


def is_own(memory: RecalledMemory) -> bool:
    """Return whether nobody but the user can have written what a memory says: no member, no stranger, no recording."""
    texts = (text.content for text in (memory, memory.before, memory.after) if text is not None)
    return memory.scope != "conversation" and not memory.shows_stranger and not any(map(shows_recordings, texts))


def estimate(
    persona: ResolvedPersona,
    conversation: ResolvedConversation,
    *,
    history: Sequence[PastStep],
    steps: Sequence[Step],
    offer: Offer,
    memory_limit: int,
) -> int:
    """Return an upper estimate of one model call in tokens: the prompt plus the maximum output."""
    texts = sum(map(count_tokens, (persona.system_prompt, conversation.summary or "", offer.instructions)))
    past = count_history(history) + sum(step.token_count for step in steps)
    entries = 4 * (len(history) + len(steps) + 2)
    around = memory_limit * MEMORY_CHARS + 60
    return texts + past + entries + around + count_images(steps) + offer.tokens + persona.max_output_tokens


def shows_recordings(content: str) -> bool:
    """Return whether a message has the transcript of a recording that may be somebody else's speech."""
    return prompts().voice.recording in content


def shows_foreign_text(content: str) -> bool:
    """Return whether a message has such a transcript, a stranger's file, or a job that strangers may have written."""
    return shows_recordings(content) or prompts().schedules.of_others in content or FROM_OTHERS in content


def to_context_block(
    user: ResolvedUser,
    memories: Sequence[RecalledMemory],
    platform_context: PlatformContext,
    *,
    now: datetime,
    replied_to: RepliedTo | None = None,
) -> str:
    """Build the context block that follows the message: local time, place, what it replies to, and memories."""
    try:
        zone = ZoneInfo(user.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        zone = ZoneInfo("UTC")
    # Users choose the names of channels and roles, so these are quoted like messages.
    facts = {
        "Server": platform_context.server_name,
        "Channel": platform_context.channel_name,
        "Channel topic": platform_context.topic,
        "Thread": platform_context.thread_title,
        "Roles of who writes": ", ".join(platform_context.roles),
    }
    lines = [f"Now: {now.astimezone(zone):%A, %d %B %Y, %H:%M} ({zone.key})"]
    lines += [f"{name}: {quote(fact)}" for name, fact in facts.items() if fact]
    if replied_to is not None:
        speaker = "you" if replied_to.speaker is None else to_speaker(replied_to.speaker)
        lines.append(prompts().turn.replied_to.format(speaker=speaker, text=quote(replied_to.text)))
    if memories:
        lines.append(prompts().turn.memories_heading.format(name=to_speaker(user.name)))
        lines += [to_memory_line(memory, zone) for memory in memories]
    return "<context>\n" + "\n".join(lines) + "\n</context>"


def to_messages(steps: Sequence[Step]) -> list[ModelMessage]:
    """Convert assistant and tool steps to the OpenAI shape, in the model's order; omits calls without a result."""
    results = {step.tool.call_id: step for step in steps if step.role == "tool_result"}
    messages: list[ModelMessage] = []
    for index, step in enumerate(steps):
        if step.role != "assistant":
            continue
        following = takewhile(lambda later: later.role != "assistant", steps[index + 1 :])
        calls = [call for call in following if call.role == "tool_call" and call.tool.call_id in results]
        if calls:
            tool_calls = [
                {
                    "id": call.tool.call_id,
                    "type": "function",
                    "function": {"name": to_wire_name(call.tool.name), "arguments": to_shown_arguments(call.content)},
                }
                for call in calls
            ]
            messages.append({"role": "assistant", "content": step.content or None, "tool_calls": tool_calls})
        elif step.content:
            messages.append({"role": "assistant", "content": step.content})
        for call in calls:
            content = results[call.tool.call_id].content
            messages.append({"role": "tool", "tool_call_id": call.tool.call_id, "content": content})
    return messages


def to_past_turn(turn: Sequence[PastStep], images: PromptImages, *, is_shared: bool) -> list[ModelMessage]:
    """Convert the steps of one past turn to messages."""
    file_ids = images.by_turn.get(turn[0].turn_id, ())
    messages: list[ModelMessage] = []
    for step in (past_step.step for past_step in turn):
        if step.role == "user":
            content = _to_content(step)
            # In a shared channel the author's name stands before a message.
            messages.append(_to_message(with_speaker(step.speaker, content) if is_shared else content, file_ids))
    return messages + to_messages([shorten(past_step.step) for past_step in turn])


def _to_content(step: Step) -> str:
    content = without_context_tags(step.content) if "<" in step.content else step.content
    return content or prompts().turn.no_text


def _to_message(content: str, file_ids: Sequence[int]) -> ModelMessage:
    return {"role": "user", "content": with_images(content, file_ids) if file_ids else content}


class Window(Struct, frozen=True):
    """How much history a prompt may hold, in tokens.

    From `goal` on, what the summary holds is dropped. `most` is what the model takes in at all.
    """

    goal: int
    most: int

    @classmethod
    def of(cls, model_window: int | None, reserved: int, goal: int) -> "Window":
        """Return the window of a model, where `reserved` tokens are needed for the answer, the tools and so on."""
        most = max(1, (model_window or UNKNOWN_WINDOW) - reserved - OTHER_TOKENS)
        return cls(min(goal, int(most * 0.75)), most)


async def cut_history(
    session: Session, conversation: ResolvedConversation, past: list[PastStep], window: Window, *, turn_id: int
) -> list[PastStep]:
    """Return the history of a turn; when it exceeds the window, the window moves on."""
    if count_history(past) <= window.goal:
        return past
    steps = drop_blocks(past, window, conversation.summarized_turn_id)
    if len(steps) < len(past):
        begins = steps[0].turn_id if steps else turn_id
        await session.execute(statements.move_window, {"conversation_id": conversation.id, "begins": begins})
    last_dropped = past[len(past) - len(steps) - 1].turn_id if len(steps) < len(past) else 0
    if count_history(steps) > window.goal or last_dropped > conversation.summarized_turn_id:
        await session.execute(statements.request_summary, {"conversation_id": conversation.id})
    return steps


def drop_blocks(past: Sequence[PastStep], window: Window, summarized_turn_id: int) -> list[PastStep]:
    """Return the history without its oldest turns, as many as the window and the summary demand.

    Turns that the summary holds are dropped until half of what is wanted is left, others only when `window.most` is
    exceeded.
    """
    turns = deque(list(group) for _, group in groupby(past, key=lambda past_step: past_step.turn_id))
    total = count_history(past)
    while turns and total > window.goal * KEPT_SHARE and turns[0][0].turn_id <= summarized_turn_id:
        total -= count_history(turns.popleft())
    if total > window.most:
        log.warning("history_dropped_without_summary", first_turn=turns[0][0].turn_id)
        while turns and total > window.most * KEPT_SHARE:
            total -= count_history(turns.popleft())
    return [past_step for turn in turns for past_step in turn]


def count_history(past: Sequence[PastStep]) -> int:
    """Return an upper estimate of the tokens of these steps in the prompt, images included."""
    steps = [past_step.step for past_step in past]
    tokens = count_images(steps) + sum(step.token_count for step in steps)
    for step in steps:
        if step.role == "tool_result" and len(step.content) > PAST_RESULT_CHARS:
            tokens -= max(0, step.token_count - count_tokens(step.content[:PAST_RESULT_CHARS]))
    return tokens


def count_images(steps: Iterable[Step]) -> int:
    """Return the tokens of the images that these steps name."""
    # The turn of an image does not matter for counting tokens.
    naming = [(0, step) for step in steps if names_files(step)]
    return IMAGE_TOKENS * len(find_named(naming)) if naming else 0


def names_files(step: Step) -> bool:
    """Return whether a message may name files; as a rule it does not."""
    return step.role == "user" and "(file_id " in step.content


def shorten(step: Step) -> Step:
    """Return the step of a past turn as the prompt shows it: of a long result of a tool only the beginning."""
    if step.role != "tool_result" or len(step.content) <= PAST_RESULT_CHARS:
        return step
    return replace(step, content=cut(step.content, PAST_RESULT_CHARS))
