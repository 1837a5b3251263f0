"""Programs that read Markdown, each in its own way: what they make of a text that Parley sends."""

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

BARE = re.compile(r"(?:https?|ftp)://[^\s<>]+|(?<![\w./-])www\.[^\s<>]+", re.IGNORECASE)
# Discord's rules for code, as its clients apply them: the first that fits wins, across lines.
DISCORD_CODE = re.compile(r"```(?:[a-z0-9_+\-.#]+?\n)?\n*[^\n][\s\S]*?\n*```|(`+)[\s\S]*?[^`]\1(?!`)")
DISCORD_LINK = re.compile(r"\[[^\[\]]*\]\(\s*<?([^\s<>]*)")
TAG = re.compile(r"<(?:/?[a-zA-Z]|!--|!\[CDATA|\?)[^>]*")
PLAIN_TAG = re.compile(r"</?(?:b|i|u|s|em|strong|del|ins|mark|sub|sup|kbd|small|br)\s*/?$", re.IGNORECASE)

COMMONMARK = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def find_links(text: str) -> Iterator[str]:
    """Yield what one of the programs makes a link or an image of, and every tag that could load something."""
    yield from (f"link {url}" for url in in_commonmark(COMMONMARK.parse(text)))
    yield from (f"Discord {url}" for url in in_discord(text))


def in_commonmark(tokens: list[Token]) -> Iterator[str]:
    """Yield what a reader of CommonMark with tables, HTML and links from bare URLs shows."""
    for token in tokens:
        if token.type == "link_open":
            yield str(token.attrs["href"])
        elif token.type == "image":
            yield f"image {token.attrs['src']}"
        elif token.type in ("html_inline", "html_block"):
            yield from (f"tag {tag}" for tag in TAG.findall(token.content) if not PLAIN_TAG.match(tag))
        elif token.type == "text":
            yield from BARE.findall(token.content)
        yield from in_commonmark(token.children or [])


def in_discord(text: str) -> Iterator[str]:
    """Yield the links that Discord shows outside of code."""
    prose = DISCORD_CODE.sub(" ", text)
    yield from BARE.findall(prose)
    yield from (url for url in DISCORD_LINK.findall(prose) if ":" in url)
