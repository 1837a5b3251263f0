"""The search engines: each converts a query to a request, and the response to results."""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any, Literal, Protocol

from msgspec import Struct

from modules.research.settings import ResearchSettings
from shared.errors import ToolError, Unavailable
from shared.http.client import GuardedClient, Response
from shared.log import get_logger
from shared.text import clean, cut

Kind = Literal["web", "news"]
Since = Literal["day", "week", "month", "year"]

SEARCH_SECONDS = 15.0
MAX_ANSWER_BYTES = 2 * 1024 * 1024
MAX_RESULTS = 20
MAX_SNIPPET_CHARS = 400
MAX_TITLE_CHARS = 200
MAX_URL_CHARS = 2000
TAG = re.compile(r"<[^<>]{0,200}>")

log = get_logger()


class Query(Struct, frozen=True):
    """What to search for; with `since`, only what is not older."""

    text: str
    count: int
    kind: Kind = "web"
    since: Since | None = None


class Found(Struct, frozen=True):
    """One result; `date` is as the engine writes it, empty if it names none."""

    title: str
    url: str
    snippet: str
    date: str = ""


class Engine(Protocol):
    """A search engine."""

    async def search(self, http: GuardedClient, query: Query) -> list[Found]:
        """Return the results in the engine's order; raises `Unavailable`."""
        ...


def find_engine(settings: ResearchSettings) -> Engine | None:
    """Return the first engine that the settings configure."""
    if settings.searxng_url:
        return SearXNG(settings.searxng_url)
    if settings.brave_api_key:
        return Brave(settings.brave_url, settings.brave_api_key.get_secret_value())
    if settings.tavily_api_key:
        return Tavily(settings.tavily_url, settings.tavily_api_key.get_secret_value())
    return None


class SearXNG(Struct, frozen=True):
    """A SearXNG server whose `search.formats` include `json`."""

    url: str

    async def search(self, http: GuardedClient, query: Query) -> list[Found]:
        """Search with the JSON format."""
        parameters = {
            "q": query.text,
            "format": "json",
            "categories": "news" if query.kind == "news" else "general",
            **({"time_range": query.since} if query.since else {}),
        }
        response = await _send(http, "GET", f"{self.url.rstrip('/')}/search", params=parameters)
        hint = "RESEARCH_SEARXNG_URL; a SearXNG server answers with 403 unless search.formats includes json"
        return _to_results(_json(response, hint).get("results"), "content", ("publishedDate",), count=query.count)


class Brave(Struct, frozen=True):
    """The Brave Search API."""

    url: str
    key: str

    async def search(self, http: GuardedClient, query: Query) -> list[Found]:
        """Search the web or the news."""
        parameters = {
            "q": query.text[:400],
            "count": str(query.count),
            **({"freshness": f"p{query.since[0]}"} if query.since else {}),
        }
        address = f"{self.url.rstrip('/')}/res/v1/{query.kind}/search"
        headers = {"X-Subscription-Token": self.key, "Accept": "application/json"}
        answer = _json(await _send(http, "GET", address, params=parameters, headers=headers), "RESEARCH_BRAVE_API_KEY")
        results = answer.get("results") if query.kind == "news" else _mapping(answer.get("web")).get("results")
        return _to_results(results, "description", ("page_age", "age"), count=query.count)


class Tavily(Struct, frozen=True):
    """The Tavily Search API."""

    url: str
    key: str

    async def search(self, http: GuardedClient, query: Query) -> list[Found]:
        """Search the web or the news."""
        parameters = {
            "query": query.text[:400],
            "max_results": query.count,
            "topic": "news" if query.kind == "news" else "general",
            **({"time_range": query.since} if query.since else {}),
        }
        headers = {"Authorization": f"Bearer {self.key}"}
        response = await _send(http, "POST", f"{self.url.rstrip('/')}/search", json=parameters, headers=headers)
        return _to_results(
            _json(response, "RESEARCH_TAVILY_API_KEY").get("results"), "content", ("published_date",), count=query.count
        )


async def _send(http: GuardedClient, method: str, url: str, **options: Any) -> Response:
    # The URL is the operator's, so it may be on a private network; redirects to other origins may not.
    return await http.request(
        method, url, trusted=True, timeout_seconds=SEARCH_SECONDS, max_bytes=MAX_ANSWER_BYTES, **options
    )


def _json(response: Response, hint: str) -> Mapping[str, Any]:
    """Return the response's JSON object; `hint` tells the operator what to check when the engine refuses."""
    if response.status in (401, 403):
        log.error("search_refused", status=response.status, remedy=f"check {hint}")
        raise ToolError("The search engine refuses this installation's access; the operator has to check its settings.")
    if response.status == 429:
        raise Unavailable("The search engine allows no more searches just now.")
    if response.status != 200:
        log.warning("search_failed", status=response.status)
        raise Unavailable(f"The search engine answers with status {response.status}.")
    return _mapping(response.json())


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _to_results(results: Any, snippet: str, dates: Sequence[str], *, count: int) -> list[Found]:
    """Return the first `count` results with different URLs; the arguments name the engine's fields."""
    hits: dict[str, Found] = {}
    for entry in results if isinstance(results, list) else ():
        if not isinstance(entry, Mapping):
            continue
        url = clean(str(entry.get("url") or "")).strip()
        if len(hits) == count or not url.lower().startswith(("http://", "https://")) or len(url) > MAX_URL_CHARS:
            continue
        date = next((str(entry[name]) for name in dates if entry.get(name)), "")
        hits.setdefault(
            url,
            Found(
                title=_plain(entry.get("title"), MAX_TITLE_CHARS) or url,
                url=url,
                snippet=_plain(entry.get(snippet), MAX_SNIPPET_CHARS),
                date=cut(clean(date), 40),
            ),
        )
    return list(hits.values())


def _plain(value: Any, limit: int) -> str:
    # Engines mark the words that were found with HTML.
    text = unescape(TAG.sub("", str(value or "")[: 4 * limit]))
    return cut(" ".join(clean(text).split()), limit)
