"""What the model is shown, in an order that providers' prompt caches like.

System prompt and tools stay the same to the byte; history only grows, and is dropped in blocks; what changes every
time (clock, memories) comes last, together with this message.
"""

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.app import App
from agent.context.history import PastStep
from agent.context.images import Shown, find_named, with_images
from agent.journal.steps import Step
from agent.llm.tokens import IMAGE_TOKENS, count_tokens
from agent.people.conversations import ResolvedConversation
from agent.people.personas import ResolvedPersona
from agent.people.users import ResolvedUser
from agent.prompts import prompts
from agent.tools.arguments import to_shown_arguments
from agent.tools.toolbox import Offer, to_wire_name
from shared.memory.memories import RecalledMemory
from shared.messages import PlatformContext, QuotedMessage
from shared.text import cut

MEMORY_CHARS = 300
MAX_NAME_CHARS = 64
# Characters that nobody sees, and those that look like the one after a name.
UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
COLONS = re.compile("[:\u02d0\u02f8\u0589\u05c3\u2236\ua789\ufe13\ufe55\uff1a]")

# What only the house may write, however it is disguised; bounded, because anybody may write it.
MARKS = re.compile(r"<[^\w<]{0,8}context[^\w<>.]{0,8}>", re.IGNORECASE)
# All that a model may take for the end of a line.
LINE_ENDS = re.compile(r"\r\n?|[\n\v\f\x1c-\x1e\x85\u2028\u2029]")

ModelMessage = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """The prompt of a turn up to this message; the turn's own steps are added behind it.

    `images` has those of its messages by the file's id. `shows_untrusted`, `shows_private`: it holds what others may
    have written, and what the person has said or sent in private.
    """

    messages: tuple[ModelMessage, ...]
    images: Mapping[int, str] = field(default_factory=dict)
    shows_untrusted: bool = False
    shows_private: bool = False


async def build_context(
    app: App,
    user: ResolvedUser,
    persona: ResolvedPersona,
    conversation: ResolvedConversation,
    history: Sequence[PastStep],
    own: PastStep,
    images: Shown,
    instructions: str = "",
    surroundings: PlatformContext | None = None,
) -> Context:
    """Gather the prompt for this message; waits for the recall, never inside a transaction."""
    memories: list[RecalledMemory] = []
    if user.has_memories:
        kept = app.memory.of_user(user.id, conversation.place, conversation.id)
        memories = await kept.recall(own.step.content, app.settings.memory_recall_limit)
    is_shared = not conversation.place.is_direct
    said = MARKS.sub("[context]", own.step.content) or prompts().turn.no_text
    this_message = _named(user.name, said) if is_shared else said
    around = _around(app, user, memories, surroundings or PlatformContext())
    messages = [_system(persona, conversation, instructions)]
    for _, turn in groupby(history, key=lambda each: each.turn_id):
        messages += _past_turn(list(turn), images, is_shared=is_shared)
    shown = with_images(f"{this_message}\n\n{around}", images.by_turn.get(own.turn_id, ()))
    messages.append({"role": "user", "content": shown})
    # Elsewhere only what was said openly on the same server is recalled, and what was sent was sent to all.
    shows_private = not is_shared and bool(memories or images.data)
    return Context(tuple(messages), images.data, shows_untrusted=bool(images.data), shows_private=shows_private)


def to_messages(steps: Sequence[Step]) -> list[ModelMessage]:
    """Return assistant and tool steps in the OpenAI shape: whole pairs of call and result, in the model's order."""
    results = {step.tool_call_id: step for step in steps if step.role == "tool_result"}
    messages: list[ModelMessage] = []
    for index, step in enumerate(steps):
        if step.role != "assistant":
            continue
        calls = [call for call in _calls_after(steps, index) if call.tool_call_id in results]
        if calls or step.content:
            messages.append(_assistant(step, calls))
        messages += [_tool_result(results[call.tool_call_id]) for call in calls]
    return messages


def estimate(
    persona: ResolvedPersona,
    conversation: ResolvedConversation,
    history: Sequence[PastStep],
    steps: Sequence[Step],
    offer: Offer,
    memory_limit: int,
) -> int:
    """Return an upper estimate of one model call: the prompt plus the allowed output, in tokens."""
    texts = sum(count_tokens(each) for each in (persona.system_prompt, conversation.summary or "", offer.instructions))
    past = sum(each.step.token_count for each in history) + sum(each.token_count for each in steps)
    entries = 4 * (len(history) + len(steps) + 2)
    around = memory_limit * MEMORY_CHARS + 60
    # Which turn an image belongs to makes no difference to its price.
    images = IMAGE_TOKENS * len(find_named((0, each) for each in (*(each.step for each in history), *steps)))
    return texts + past + entries + around + images + offer.tokens + persona.max_output_tokens


def _system(persona: ResolvedPersona, conversation: ResolvedConversation, instructions: str) -> ModelMessage:
    parts = [persona.system_prompt, instructions] if instructions else [persona.system_prompt]
    if conversation.summary:
        parts.append(f"{prompts().turn.summary_heading}\n{conversation.summary}")
    return {"role": "system", "content": "\n\n".join(parts)}


def _past_turn(turn: Sequence[PastStep], images: Shown, *, is_shared: bool) -> list[ModelMessage]:
    file_ids = images.by_turn.get(turn[0].turn_id, ())
    said = [_user_message(each.step, file_ids, is_shared=is_shared) for each in turn if each.step.role == "user"]
    return said + to_messages([each.step for each in turn])


def _user_message(step: Step, file_ids: Sequence[int], *, is_shared: bool) -> ModelMessage:
    said = MARKS.sub("[context]", step.content) or prompts().turn.no_text
    return {"role": "user", "content": with_images(_named(step.speaker, said) if is_shared else said, file_ids)}


def _calls_after(steps: Sequence[Step], index: int) -> list[Step]:
    calls: list[Step] = []
    for step in steps[index + 1 :]:
        if step.role == "assistant":
            break
        if step.role == "tool_call":
            calls.append(step)
    return calls


def _assistant(step: Step, calls: Sequence[Step]) -> ModelMessage:
    if not calls:
        return {"role": "assistant", "content": step.content}
    requested = [
        {
            "id": call.tool_call_id,
            "type": "function",
            "function": {"name": to_wire_name(str(call.tool_name)), "arguments": to_shown_arguments(call.content)},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": step.content or None, "tool_calls": requested}


def _tool_result(step: Step) -> ModelMessage:
    return {"role": "tool", "tool_call_id": step.tool_call_id, "content": step.content}


def _named(name: str | None, said: str) -> str:
    # A name can't break out of its line and speak for somebody else.
    visible = "".join(each for each in name or "somebody" if each.isspace() or unicodedata.category(each) not in UNSEEN)
    shown = MARKS.sub("[context]", " ".join(COLONS.sub(" ", visible).split())[:MAX_NAME_CHARS]) or "somebody"
    # Nor can what follows a line break: only a line that begins at the margin tells who speaks.
    return f"{shown}: " + LINE_ENDS.sub("\n  ", said)


def _around(app: App, user: ResolvedUser, memories: Sequence[RecalledMemory], told: PlatformContext) -> str:
    try:
        zone = ZoneInfo(user.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        zone = ZoneInfo("UTC")
    lines = [f"Now: {app.clock.now().astimezone(zone):%A, %d %B %Y, %H:%M} ({zone.key})"]
    lines += _platform_context(told)
    if memories:
        lines.append(prompts().turn.memories_heading.format(name=_named(user.name, "")[:-2]))
        lines += [f"- {_quoted(cut(each.content, MEMORY_CHARS))}" for each in memories]
    return "<context>\n" + "\n".join(lines) + "\n</context>"


def _platform_context(told: PlatformContext) -> list[str]:
    # What people have named their channels and roles is material too: quoted, so that it stays on its line.
    facts = {
        "Server": told.server_name,
        "Channel": told.channel_name,
        "Channel topic": told.topic,
        "Thread": told.thread_title,
        "Roles of who writes": ", ".join(told.roles),
    }
    return [f"{name}: {_quoted(fact)}" for name, fact in facts.items() if fact]


def _quoted(given: str) -> str:
    return MARKS.sub("[context]", json.dumps(LINE_ENDS.sub("\n", given), ensure_ascii=False))


def with_earlier(said: str, earlier: Sequence[QuotedMessage]) -> str:
    """Return a message with what others had said before it, which the agent has not heard."""
    heading = prompts().turn.earlier_heading
    # Only the house says what others have said.
    said = said.replace(heading, f"({heading[1:-1]})")
    if not earlier:
        return said
    lines = [_named(each.speaker, each.text.replace(heading, f"({heading[1:-1]})")) for each in earlier]
    return "\n".join([said, "", heading, *lines]).strip()
