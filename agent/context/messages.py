"""Converts journal steps to messages in the OpenAI shape; quotes text of other people, so that it stays data.

A message refers to an image by the id of its file; the content is inserted when a route is called. Images count as
untrusted content, because they may contain text that somebody else has written.
"""

import asyncio
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlalchemy import text

from agent.context.history import PastStep, find_named, shorten
from agent.context.replied_to import RepliedTo
from agent.journal.steps import Step
from agent.llm.vision import SCHEME
from agent.people.users import ResolvedUser
from agent.prompts import prompts
from agent.tools.arguments import to_shown_arguments
from agent.tools.offer import to_wire_name
from shared.db.database import Database
from shared.files.images import Images
from shared.memory.memories import Neighbour, RecalledMemory
from shared.messages import PlatformContext, QuotedMessage
from shared.text import cut

MEMORY_CHARS = 300

FIND_IMAGES = text("""
SELECT file_records.id, file_records.turn_id, file_records.minio_key
FROM unnest(CAST(:ids AS bigint[]), CAST(:turn_ids AS bigint[])) AS named (id, turn_id)
JOIN file_records ON file_records.id = named.id AND file_records.turn_id = named.turn_id
WHERE file_records.status = 'stored'
  AND file_records.mime_type IN ('image/png', 'image/jpeg', 'image/webp', 'image/gif')
ORDER BY file_records.id
""")


@dataclass(frozen=True, slots=True)
class PromptImages:
    """The images of a prompt: file ids by turn (`by_turn`), and `data:` URLs by file id (`data`)."""

    by_turn: Mapping[int, Sequence[int]] = field(default_factory=dict)
    data: Mapping[int, str] = field(default_factory=dict)


async def load_images(
    database: Database, images: Images, *, history: Sequence[PastStep], message: PastStep
) -> PromptImages:
    """Load the images that the history and the message name."""
    named = find_named((each.turn_id, each.step) for each in (*history, message))
    if not named:
        return PromptImages()
    given = {"ids": [file_id for _, file_id in named], "turn_ids": [turn_id for turn_id, _ in named]}
    async with database.statement() as session:
        rows = (await session.execute(FIND_IMAGES, given)).all()
    by_turn: dict[int, list[int]] = {}
    data: dict[int, str] = {}
    for row, shown in zip(rows, await asyncio.gather(*(images.show(row.minio_key) for row in rows)), strict=True):
        if shown is not None:
            data[row.id] = shown
            by_turn.setdefault(row.turn_id, []).append(row.id)
    return PromptImages(by_turn, data)


def with_images(content: str, file_ids: Sequence[int]) -> Any:
    """Return the content of a message with a placeholder for each of its images."""
    if not file_ids:
        return content
    places = [{"type": "image_url", "image_url": {"url": f"{SCHEME}{file_id}"}} for file_id in file_ids]
    return [{"type": "text", "text": content}, *places]


def shows_recordings(content: str) -> bool:
    """Return whether a message has the transcript of a recording that may be somebody else's speech."""
    return prompts().voice.recording in content


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
    lines = [f"Now: {now.astimezone(zone):%A, %d %B %Y, %H:%M} ({zone.key})", *_to_lines(platform_context)]
    if replied_to is not None:
        speaker = "you" if replied_to.speaker is None else to_speaker(replied_to.speaker)
        lines.append(prompts().turn.replied_to.format(speaker=speaker, text=quote(replied_to.text)))
    if memories:
        lines.append(prompts().turn.memories_heading.format(name=to_speaker(user.name)))
        lines += [_to_memory_line(each, zone) for each in memories]
    return "<context>\n" + "\n".join(lines) + "\n</context>"


def _to_memory_line(memory: RecalledMemory, zone: ZoneInfo) -> str:
    """Return a memory with its date and speaker, between its neighbours; quoted, so that the texts stay data."""
    day = f"{memory.said_at.astimezone(zone):%d %B %Y}"
    # A fact is known; a message was said by somebody.
    speaker = "you" if memory.is_from_bot else to_speaker(memory.speaker)
    texts = [f"- {day}, {speaker}:" if memory.source == "turn" else f"- {day}:"]
    if memory.before is not None:
        texts.append(f"(after {_to_neighbour(memory.before)})")
    texts.append(quote(cut(memory.content, MEMORY_CHARS)))
    if memory.after is not None:
        texts.append(f"(then {_to_neighbour(memory.after)})")
    return " ".join(texts)


def _to_neighbour(neighbour: Neighbour) -> str:
    text = quote(cut(neighbour.content, MEMORY_CHARS))
    if neighbour.is_from_bot:
        return f"you: {text}"
    return f"{to_speaker(neighbour.speaker)}: {text}" if neighbour.speaker else text


def _to_lines(platform_context: PlatformContext) -> list[str]:
    # Users choose the names of channels and roles, so these are quoted like messages.
    facts = {
        "Server": platform_context.server_name,
        "Channel": platform_context.channel_name,
        "Channel topic": platform_context.topic,
        "Thread": platform_context.thread_title,
        "Roles of who writes": ", ".join(platform_context.roles),
    }
    return [f"{name}: {quote(fact)}" for name, fact in facts.items() if fact]


def with_earlier(text: str, earlier: Sequence[QuotedMessage]) -> str:
    """Append earlier messages of other users, which the agent did not receive as messages, to a message."""
    heading = prompts().turn.earlier_heading
    # Users must not be able to imitate the heading.
    text = text.replace(heading, f"({heading[1:-1]})")
    if not earlier:
        return text
    lines = [with_speaker(each.speaker, each.text.replace(heading, f"({heading[1:-1]})")) for each in earlier]
    return "\n".join([text, "", heading, *lines]).strip()


MAX_NAME_CHARS = 64


# Unicode categories of invisible characters.
INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})


# Characters that look like the colon after a speaker's name.
COLONS = re.compile("[:\u02d0\u02f8\u0589\u05c3\u2236\ua789\ufe13\ufe55\uff1a]")


# Users must not be able to imitate a context block, however they disguise its tag. The repetitions are bounded, so
# that crafted text cannot make matching slow.
CONTEXT_TAGS = re.compile(r"<[^\w<]{0,8}context[^\w<>.]{0,8}>", re.IGNORECASE)


# All characters that a model may read as the end of a line.
LINE_ENDS = re.compile(r"\r\n?|[\n\v\f\x1c-\x1e\x85\u2028\u2029]")


def without_context_tags(text: str) -> str:
    """Replace all tags of a context block in the text."""
    return CONTEXT_TAGS.sub("[context]", text)


def to_speaker(name: str | None) -> str:
    """Clean a name for the prompt: one line, visible characters, no colons or context tags, limited length."""
    visible = "".join(
        each for each in name or "somebody" if each.isspace() or unicodedata.category(each) not in INVISIBLE
    )
    return without_context_tags(" ".join(COLONS.sub(" ", visible).split())[:MAX_NAME_CHARS]) or "somebody"


def with_speaker(name: str | None, text: str) -> str:
    """Prefix a message with the name of its author."""
    # Further lines are indented, so that a message cannot imitate a line of another speaker.
    return f"{to_speaker(name)}: " + LINE_ENDS.sub("\n  ", text)


def quote(text: str) -> str:
    """Return the text as a JSON string on one line."""
    return without_context_tags(json.dumps(LINE_ENDS.sub("\n", text), ensure_ascii=False))


ModelMessage = dict[str, Any]


def to_messages(steps: Sequence[Step]) -> list[ModelMessage]:
    """Convert assistant and tool steps to the OpenAI shape, in the model's order; omits calls without a result."""
    results = {step.tool.call_id: step for step in steps if step.role == "tool_result"}
    messages: list[ModelMessage] = []
    for index, step in enumerate(steps):
        if step.role != "assistant":
            continue
        calls = [call for call in _calls_after(steps, index) if call.tool.call_id in results]
        if calls or step.content:
            messages.append(_assistant(step, calls))
        messages += [_tool_result(results[call.tool.call_id]) for call in calls]
    return messages


def to_past_turn(turn: Sequence[PastStep], images: PromptImages, *, is_shared: bool) -> list[ModelMessage]:
    """Convert the steps of one past turn to messages."""
    file_ids = images.by_turn.get(turn[0].turn_id, ())
    asked = [to_user_message(each.step, file_ids, is_shared=is_shared) for each in turn if each.step.role == "user"]
    return asked + to_messages([shorten(each.step) for each in turn])


def to_user_message(step: Step, file_ids: Sequence[int], *, is_shared: bool) -> ModelMessage:
    """Convert the step of a user's message; in a shared channel it is prefixed with the author's name."""
    content = without_context_tags(step.content) or prompts().turn.no_text
    return {
        "role": "user",
        "content": with_images(with_speaker(step.speaker, content) if is_shared else content, file_ids),
    }


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
            "id": call.tool.call_id,
            "type": "function",
            "function": {"name": to_wire_name(call.tool.name), "arguments": to_shown_arguments(call.content)},
        }
        for call in calls
    ]
    return {"role": "assistant", "content": step.content or None, "tool_calls": requested}


def _tool_result(step: Step) -> ModelMessage:
    return {"role": "tool", "tool_call_id": step.tool.call_id, "content": step.content}
