"""What people write in a prompt: names, messages and quotes, shown so that none can pass for something else."""

import json
import re
import unicodedata

MAX_NAME_CHARS = 64
# Invisible characters, and those that look like the colon after a name.
INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
COLONS = re.compile("[:\u02d0\u02f8\u0589\u05c3\u2236\ua789\ufe13\ufe55\uff1a]")
# Only we may write a context block, however the tag is disguised; bounded, because anybody may write such text.
CONTEXT_TAGS = re.compile(r"<[^\w<]{0,8}context[^\w<>.]{0,8}>", re.IGNORECASE)
# Everything that a model may take for the end of a line.
LINE_ENDS = re.compile(r"\r\n?|[\n\v\f\x1c-\x1e\x85\u2028\u2029]")


def without_context_tags(text: str) -> str:
    """Return the text with every tag of a context block defused."""
    return CONTEXT_TAGS.sub("[context]", text)


def to_speaker(name: str | None) -> str:
    """Return a name that stays within its line and looks like nothing else."""
    visible = "".join(
        each for each in name or "somebody" if each.isspace() or unicodedata.category(each) not in INVISIBLE
    )
    return without_context_tags(" ".join(COLONS.sub(" ", visible).split())[:MAX_NAME_CHARS]) or "somebody"


def with_speaker(name: str | None, text: str) -> str:
    """Return a message behind the name of its author."""
    # Further lines are indented: only a line that begins at the margin names a speaker.
    return f"{to_speaker(name)}: " + LINE_ENDS.sub("\n  ", text)


def quote(text: str) -> str:
    """Return the text as a JSON string, which stays on its line."""
    return without_context_tags(json.dumps(LINE_ENDS.sub("\n", text), ensure_ascii=False))
