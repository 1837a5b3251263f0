"""Quotes what people have written, so that it stays data: names, messages of others, memories."""

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from agent.prompts import prompts
from shared.messages import QuotedMessage
from shared.text import cut

if TYPE_CHECKING:
    from shared.memory.memories import Neighbour, RecalledMemory

MEMORY_CHARS = 300
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
        character
        for character in name or "somebody"
        if character.isspace() or unicodedata.category(character) not in INVISIBLE
    )
    return without_context_tags(" ".join(COLONS.sub(" ", visible).split())[:MAX_NAME_CHARS]) or "somebody"


def with_speaker(name: str | None, text: str) -> str:
    """Prefix a message with the name of its author."""
    # Further lines are indented, so that a message cannot imitate a line of another speaker.
    return f"{to_speaker(name)}: " + LINE_ENDS.sub("\n  ", text)


def quote(text: str) -> str:
    """Return the text as a JSON string on one line."""
    return without_context_tags(json.dumps(LINE_ENDS.sub("\n", text), ensure_ascii=False))


def with_earlier(text: str, earlier: Sequence[QuotedMessage]) -> str:
    """Append earlier messages of other users, which the agent did not receive as messages, to a message."""
    heading = prompts().turn.earlier_heading
    # Users must not be able to imitate the heading.
    text = text.replace(heading, f"({heading[1:-1]})")
    if not earlier:
        return text
    lines = [with_speaker(line.speaker, line.text.replace(heading, f"({heading[1:-1]})")) for line in earlier]
    return "\n".join([text, "", heading, *lines]).strip()


def to_memory_line(memory: "RecalledMemory", zone: ZoneInfo) -> str:
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


def _to_neighbour(neighbour: "Neighbour") -> str:
    text = quote(cut(neighbour.content, MEMORY_CHARS))
    if neighbour.is_from_bot:
        return f"you: {text}"
    return f"{to_speaker(neighbour.speaker)}: {text}" if neighbour.speaker else text
