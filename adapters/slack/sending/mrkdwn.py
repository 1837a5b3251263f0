"""Markdown as Slack's older mark-up: for notifications, for search, and where blocks are not taken."""

from collections.abc import Callable, Mapping, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

READER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
WRAPS = {"strong": "*", "em": "_", "s": "~"}
RULE = "───"


def to_mrkdwn(text: str) -> str:
    """Return the text in mrkdwn; whatever is no mark-up of ours is escaped, so that nothing in it is one of Slack's."""
    return "\n\n".join(part for part in _blocks(READER.parse(text)) if part)


def escape(text: str) -> str:
    """Return the text as Slack reads it back, sign for sign."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _blocks(tokens: Sequence[Token]) -> list[str]:
    parts: list[str] = []
    index = 0
    while index < len(tokens):
        end = _end_of(tokens, index)
        parts.append(_block(tokens[index], tokens[index + 1 : end]))
        index = end + 1
    return parts


def _end_of(tokens: Sequence[Token], start: int) -> int:
    # The position of the token that closes this one; itself when it has no inside.
    depth = 0
    for index in range(start, len(tokens)):
        depth += tokens[index].nesting
        if depth <= 0:
            return index
    return len(tokens) - 1


def _block(token: Token, inside: Sequence[Token]) -> str:
    draw = DRAWN.get(token.type)
    return "\n\n".join(_blocks(inside)) if draw is None else draw(token, inside)


def _list(token: Token, inside: Sequence[Token]) -> str:
    lines: list[str] = []
    number = int(token.attrGet("start") or 1) if token.type == "ordered_list_open" else None
    index = 0
    while index < len(inside):
        end = _end_of(inside, index)
        mark = "•" if number is None else f"{number}."
        body = "\n".join(_blocks(inside[index + 1 : end])).split("\n")
        lines += [f"{mark} {body[0]}", *(f"    {line}" for line in body[1:])]
        number = None if number is None else number + 1
        index = end + 1
    return "\n".join(lines)


def _quote(_token: Token, inside: Sequence[Token]) -> str:
    return "\n".join(f"> {line}" for line in "\n\n".join(_blocks(inside)).split("\n"))


def _table(_token: Token, inside: Sequence[Token]) -> str:
    rows: list[list[str]] = []
    for token in inside:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append("".join(each.content for each in token.children or ()))
    columns = max(len(row) for row in rows)
    rows = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(columns)]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines = [drawn[0], "  ".join("-" * width for width in widths), *drawn[1:]]
    return "```\n" + escape("\n".join(lines)) + "\n```"


def _inline(token: Token) -> str:
    out: list[str] = []
    for each in token.children or ():
        kind, _, edge = each.type.rpartition("_")
        if edge in ("open", "close") and kind in WRAPS:
            out.append(WRAPS[kind])
        elif each.type == "link_open":
            out.append(f"<{_address(str(each.attrGet('href') or ''))}|")
        elif each.type == "link_close":
            out.append(">")
        elif each.type == "image":
            out.append(f"<{_address(str(each.attrGet('src') or ''))}|{escape(each.content) or 'image'}>")
        elif each.type == "code_inline":
            out.append(f"`{escape(each.content)}`")
        elif each.type in ("softbreak", "hardbreak"):
            out.append("\n")
        else:
            out.append(escape(each.content))
    return "".join(out)


def _address(url: str) -> str:
    # Only what is an address can be one: `<!channel|x>` is a call.
    plain = escape(url).replace("|", "%7C")
    return plain if url.startswith(("https://", "http://", "mailto:")) else f"http://{plain.lstrip('!@#')}"


DRAWN: Mapping[str, Callable[[Token, Sequence[Token]], str]] = {
    "fence": lambda token, _: f"```\n{escape(token.content)}```",
    "code_block": lambda token, _: f"```\n{escape(token.content)}```",
    "hr": lambda _token, _: RULE,
    "heading_open": lambda _token, inside: f"*{_inline(inside[0]).replace('*', '')}*",
    "blockquote_open": _quote,
    "bullet_list_open": _list,
    "ordered_list_open": _list,
    "table_open": _table,
    "inline": lambda token, _: _inline(token),
    "html_block": lambda token, _: escape(token.content),
}
