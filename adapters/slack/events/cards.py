"""Reads Slack's blocks and attachments as people see them."""

from collections.abc import Callable, Iterator
from typing import Any

from adapters.chat.intake import MOST_LINES, Card
from adapters.slack.transport.api import Json

# Blocks lie in lists that lie in blocks; deeper than this Slack nests none.
DEEPEST = 8


def read_cards(event: Json, to_plain: Callable[[str], str]) -> list[Card]:
    """Return the blocks and attachments of a message; `to_plain` returns Slack's markup as plain text."""
    blocks = _dicts(event.get("blocks"))
    # A person's text comes a second time as rich text.
    if event.get("text"):
        blocks = [block for block in blocks if block.get("type") != "rich_text"]
    cards = [Card(list(_lines(blocks, to_plain)))]
    for attachment in _dicts(event.get("attachments")):
        if is_shared(attachment):
            continue
        texts = [str(attachment[key]) for key in ("pretext", "author_name", "title", "text") if attachment.get(key)]
        fields = _dicts(attachment.get("fields"))
        texts += [f"{field.get('title') or ''}: {field.get('value') or ''}" for field in fields]
        lines = [*map(to_plain, texts), *_lines(_dicts(attachment.get("blocks")), to_plain)]
        if not lines and attachment.get("fallback"):
            lines.append(to_plain(str(attachment["fallback"])))
        if attachment.get("footer"):
            lines.append(to_plain(str(attachment["footer"])))
        cards.append(Card(lines))
    return [card for card in cards if card.lines]


def is_shared(attachment: Json) -> bool:
    """Return whether an attachment is a message that somebody shares, and not a card or the preview of a link."""
    return bool(attachment.get("is_share") or attachment.get("is_msg_unfurl") or attachment.get("channel_id"))


def _lines(blocks: list[Json], to_plain: Callable[[str], str]) -> Iterator[str]:
    """Yield the texts of blocks, one line for each text object or run of rich text."""
    for block in blocks[:MOST_LINES]:
        if block.get("type") == "actions":
            continue
        if block.get("type") == "rich_text":
            yield from "".join(_rich_text(block, DEEPEST)).splitlines()
            continue
        parts = [block.get(key) for key in ("title", "text", "alt_text", "fields", "elements")]
        values = [value for part in parts for value in (part if isinstance(part, list) else [part])]
        texts = [(value.get("text") or value.get("alt_text")) if isinstance(value, dict) else value for value in values]
        yield from (to_plain(text) for text in texts if isinstance(text, str) and text)


def _rich_text(element: Json, depth: int) -> Iterator[str]:
    kind = element.get("type")
    if kind == "link":
        yield str(element.get("text") or element.get("url") or "")
    elif kind == "emoji":
        yield f":{element.get('name')}:"
    elif kind in ("user", "channel", "usergroup", "broadcast"):
        yield f"@{element.get(f'{kind}_id') or element.get('range')}"
    elif isinstance(element.get("text"), str):
        yield element["text"]
    if depth:
        for child in _dicts(element.get("elements")):
            yield from _rich_text(child, depth - 1)
            if kind in ("rich_text", "rich_text_list"):
                yield "\n"


def _dicts(source: Any) -> list[Json]:
    return [entry for entry in source if isinstance(entry, dict)] if isinstance(source, list) else []
