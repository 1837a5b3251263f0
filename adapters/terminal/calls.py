"""Tool calls in words, as the page tells them: what a call does while it runs, and what it has done."""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shared.text import abbreviate, harmless

if TYPE_CHECKING:
    from shared.tools import Words

MOST_ARGUMENT_CHARS, MOST_VALUE_CHARS = 100, 80
OPTIONAL = re.compile(r"\[([^\]]*)\]")
NAME = re.compile(r"{(\w+)}")


def describe_call(payload: Mapping[str, Any]) -> str:
    """Return a call as it is made: the tool's name and the arguments."""
    arguments = harmless(json.dumps(payload["args"], ensure_ascii=False))
    return f"{harmless(payload['tool'])} {abbreviate(arguments, MOST_ARGUMENT_CHARS)}"


def to_sentence(words: "Words | None", payload: Mapping[str, Any], *, is_done: bool) -> str:
    """Return what a call does, or has done; a tool without words, as those of other servers, is told by its name."""
    if words is None:
        module, dot, name = payload["tool"].partition(".")
        tool = f"{name.replace('_', ' ')} ({module})" if dot else module
        return harmless(f"{'Used' if is_done else 'Using'} {tool}")
    # Models choose any value, of one line or several, also for the whole.
    arguments = payload["args"] if isinstance(payload["args"], dict) else {}
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in arguments.items()
        if value not in (None, "")
    }
    values = {name: abbreviate(" ".join(text.split()), MOST_VALUE_CHARS) for name, text in texts.items()}

    def fill(part: str) -> str:
        return NAME.sub(lambda match: values.get(match[1], "…"), part)

    whole = OPTIONAL.sub(lambda match: match[1] if values.keys() >= {*NAME.findall(match[1])} else "", words[is_done])
    return harmless(fill(whole))
