"""A message as Slack shows it: markup, escapes and blocks as plain text."""

import re
from typing import Any

from tests.standins.slack.world import Json, World

REFERENCE = re.compile(r"<([@#!]?)([^>|]+)(?:\|([^>]*))?>")
PINGS = re.compile(r"<!(channel|here|everyone)(?:\|[^>]*)?>|<@([UW][A-Z0-9]+)(?:\|[^>]*)?>|<!subteam\^(\w+)[^>]*>")
TEXT_BLOCKS = ("section", "header", "markdown")


def show(world: World, message: Json) -> str:
    """Return the visible text: the blocks, or else the text; then the files."""
    blocks = message.get("blocks")
    lines = [_block(world, block) for block in blocks] if blocks else [plain(world, message.get("text", ""))]
    lines += [f"[{file['name']}]" for file in message.get("files", ())]
    return "\n".join(line for line in lines if line)


def plain(world: World, text: str) -> str:
    """Return mrkdwn with references and escapes resolved; formatting marks stay."""
    return unescape(REFERENCE.sub(lambda match: _reference(world, match), text))


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _reference(world: World, match: re.Match[str]) -> str:
    kind, target, label = match.groups()
    if kind == "@":
        user = world.users.get(target)
        return f"@{user['profile']['display_name']}" if user else f"@{target}"
    if kind == "#":
        channel = world.channels.get(target)
        return f"#{channel.get('name')}" if channel else f"#{label or target}"
    if kind == "!":
        return label or f"@{target.partition('^')[0]}"
    return label or target


def pings(message: Json) -> list[str]:
    """Return whom a message mentions: here, channel, everyone, ids of people and groups."""
    texts = [message.get("text", ""), *_texts(message.get("blocks", []))]
    return sorted({next(filter(None, groups)) for text in texts for groups in PINGS.findall(text)})


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["text"]] if isinstance(value.get("text"), str) and value.get("type") != "text" else []
        return own + [text for key, inner in value.items() if key != "text" or not own for text in _texts(inner)]
    return [text for inner in value for text in _texts(inner)] if isinstance(value, list) else []


def _block(world: World, block: Json) -> str:
    kind = block["type"]
    if kind == "markdown":
        return str(block["text"])
    if kind in ("section", "header"):
        fields = [block["text"], *block.get("fields", ())] if "text" in block else block.get("fields", ())
        return "\n".join(_text(world, field) for field in fields)
    # Buttons are not text; tests find them when they press them.
    if kind == "context":
        return " ".join(_element(world, element) for element in block["elements"])
    if kind == "task_card":
        return f"({block.get('status')}) {block['title']}"
    if kind == "table":
        return "\n".join(" | ".join(" ".join(_texts_of_cell(cell)) for cell in row) for row in block["rows"])
    return " ".join(_texts_of_cell(block)) if kind == "rich_text" else ""


def _text(world: World, text: Json) -> str:
    return plain(world, text["text"]) if text.get("type") == "mrkdwn" else str(text["text"])


def _element(world: World, element: Json) -> str:
    if element["type"] in ("mrkdwn", "plain_text"):
        return _text(world, element)
    text = element.get("text")
    return f"[{text['text']}]" if isinstance(text, dict) else ""


def _texts_of_cell(value: Any) -> list[str]:
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            return [value["text"]]
        return [text for inner in value.values() for text in _texts_of_cell(inner)]
    return [text for inner in value for text in _texts_of_cell(inner)] if isinstance(value, list) else []
