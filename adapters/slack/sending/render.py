"""An answer as Slack blocks with Markdown: no accidental mentions, parts of at most 12,000 characters."""

import html
import re

from adapters.chat.parts import Rendered, to_parts
from adapters.slack.transport.api import Json

# Next to blocks, the text is used for notifications; without blocks it is the message.
MESSAGE_LIMIT, TEXT_LIMIT, WHOLE_LIMIT = 11_000, 3_500, 39_000
MOST_PARTS = 3
PREVIEW_CHARS = 3000
EMPTY = "\N{ZERO WIDTH SPACE}"
# `<!channel>`, `<!subteam^S1>`, `<@U1>`, `<#C1>`: Slack reads these as mentions or links, in Markdown too.
# A backslash in front would escape the `&` that takes the place of the `<`.
CALL = re.compile(r"\\?<(?=[!@#][A-Za-z0-9])")
MENTION_OF_MANY = re.compile(r"\\?<(?=(?:!|#)[A-Za-z0-9])")


def render(text: str, *, allows_mentions: bool = False, is_short: bool = False) -> Rendered:
    """Return the parts; an answer of more than three, or any with `is_short`, becomes a file behind its beginning."""
    markup = neutralise_mentions(text.strip(), allows_mentions=allows_mentions) or EMPTY
    most = 0 if is_short else MOST_PARTS
    return to_parts(text, markup, limit=MESSAGE_LIMIT, most=most, preview=PREVIEW_CHARS)


def neutralise_mentions(text: str, *, allows_mentions: bool = False) -> str:
    """Return the text without mentions; mentions of people stay if the persona may mention them."""
    return (MENTION_OF_MANY if allows_mentions else CALL).sub("&lt;", text)


def to_blocks(part: str) -> list[Json]:
    """Return one part as blocks."""
    return [{"type": "markdown", "text": part}]


def to_notice(part: str, limit: int = TEXT_LIMIT) -> str:
    """Return the part as plain text without mentions, for notifications and clients that show no blocks."""
    text = html.escape(html.unescape(part), quote=False) or EMPTY
    return text if len(text) <= limit else text[: limit - 1].rpartition("\n")[0] + "\n…"
