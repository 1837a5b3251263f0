"""Fetches a page or document of the web and extracts its text."""

import re
from collections.abc import MutableMapping
from pathlib import Path

from cachetools import TTLCache
from msgspec import Struct, field
from pydantic import BaseModel, ValidationError

from modules.research.settings import ResearchSettings
from shared.documents.reading import can_parse, decode_text, parse
from shared.errors import ToolError, Unavailable
from shared.files.file_types import detect_type
from shared.http.client import Response
from shared.sandbox.programs import Program
from shared.text import clean, cut
from shared.tools import ToolContext

PARSER = Path(__file__).with_name("article.py")
FETCH_SECONDS, PARSE_SECONDS = 20.0, 20.0
MEGABYTE = 1024 * 1024
MAX_PAGES_KEPT, KEEP_SECONDS = 16, 300
HTML = "text/html"
IS_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
ACCEPT = {"accept": "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.5"}


class Page(Struct, frozen=True):
    """The text of a page; `url` is the one after redirects."""

    url: str
    text: str
    title: str = ""
    author: str = ""
    date: str = ""
    links: list[dict[str, str]] = field(default_factory=list)


class Article(BaseModel):
    """What the parser says of a page; a stranger's page may have taken it over."""

    text: str
    links: list[dict[str, str]]
    title: str = ""
    author: str = ""
    date: str = ""


# Reading on in a long page does not fetch it again; what one person may fetch, everybody may.
_PAGES: MutableMapping[str, Page] = TTLCache(MAX_PAGES_KEPT, KEEP_SECONDS)


async def fetch_page(context: ToolContext, url: str) -> Page:
    """Return the page at a URL that a person or a model names.

    Raises `ToolError` when it may not be opened, is too large, or has no text; `Unavailable` when its server fails.
    """
    if (page := _PAGES.get(url)) is not None:
        return page
    limit = context.settings(ResearchSettings).max_page_mb * MEGABYTE
    response = await context.http.get(url, headers=ACCEPT, timeout_seconds=FETCH_SECONDS, max_bytes=limit)
    if response.status >= 500 or response.status == 429:
        raise Unavailable(f"The page answers with status {response.status}.")
    if response.status != 200:
        raise ToolError(
            f"The page can't be read: its server answers with status {response.status}.", status=response.status
        )
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = detect_type(response.body, media_type)
    is_html = media_type == "application/xhtml+xml" or IS_HTML.search(response.body[:2000])
    if kind == HTML or (kind.startswith("text/") and is_html):
        page = await _read_html(context, response)
    elif can_parse(kind):
        text = await parse(context.storage, response.url, kind, content=response.body, seconds=PARSE_SECONDS)
        page = Page(response.url, text.strip())
    elif kind.startswith("text/") or kind == "application/json":
        page = Page(response.url, (await decode_text(response.body)).strip())
    else:
        raise ToolError(
            f"There is no text to read: it is {cut(kind, 60)}. Pages, PDF, Word, Excel and text can be read."
        )
    _PAGES[url] = page
    return page


async def _read_html(context: ToolContext, response: Response) -> Page:
    try:
        program = Program(PARSER, (response.url,)).within(PARSE_SECONDS)
        parser = await context.storage.run_program(program, response.body)
    except TimeoutError as error:
        raise ToolError("The page takes too long to read.") from error
    try:
        article = Article.model_validate_json(parser.output) if parser.status == 0 else None
    except ValidationError:
        article = None
    if article is None:
        raise ToolError("The page can't be read: it is damaged or too large.")
    text = clean(article.text).strip()
    if not text:
        raise ToolError("The page has no text; perhaps it is made by a script in the browser.")
    links = [{name: clean(value) for name, value in link.items()} for link in article.links]
    title, author, date = (cut(clean(value), 300) for value in (article.title, article.author, article.date))
    return Page(response.url, text, title=title, author=author, date=date, links=links)
