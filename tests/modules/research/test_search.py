"""Searching the web and the news with each engine, over HTTP against a stand-in on loopback."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.tools.modules import discover
from modules import research
from shared.errors import ConfigurationError, ToolError, Unavailable
from shared.http.client import GuardedClient
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.support.loopback import Answer, Server, redirect, reply, serving
from tests.support.tool_calls import call, context_without_database, variables

TOOLS = {var.run.__name__: var for var in vars(research).values() if isinstance(var, Tool)}
BRIDGE = {
    "title": "The <b>bridge</b> &amp; the river",
    "url": "https://news.example/bridge",
    "content": "It opens in <em>May</em>.",
    "description": "It opens in <strong>May</strong>.",
    "publishedDate": "2026-03-02",
    "page_age": "2026-03-02",
    "published_date": "2026-03-02",
}
FOUND = {
    "title": "The bridge & the river",
    "url": "https://news.example/bridge",
    "snippet": "It opens in May.",
    "date": "2026-03-02",
}


@pytest.fixture
async def http() -> AsyncIterator[GuardedClient]:
    client = GuardedClient(Settings())
    yield client
    await client.aclose()


@pytest.fixture
def context(http: GuardedClient, tmp_path: Path) -> ToolContext:
    return context_without_database(tmp_path, "research", http)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What the test adds to the environment."""
    with ExitStack() as stack:
        yield stack


def results(*entries: dict[str, Any]) -> Answer:
    """Answer with these results in the form of every engine."""
    hits = list(entries)
    return reply(json.dumps({"results": hits, "web": {"results": hits}}).encode())


def request_of(server: Server) -> tuple[str, dict[str, str]]:
    """Return the path of the last request and its query, or the JSON of its body."""
    request = server.requests[-1]
    parts = urlsplit(request.path)
    if request.body:
        return parts.path, json.loads(request.body)
    return parts.path, {name: value for name, (value,) in parse_qs(parts.query).items()}


async def test_searxng_is_asked_for_json(context: ToolContext, stack: ExitStack) -> None:
    async with serving(results(BRIDGE)) as server:
        stack.enter_context(variables(RESEARCH_SEARXNG_URL=server.origin))
        answer = await call(research.web_search, context, query=" the\nbridge ")
        assert request_of(server) == ("/search", {"q": "the bridge", "format": "json", "categories": "general"})
        await call(research.news_search, context, query="bridge", since="week")
        assert request_of(server)[1] == {"q": "bridge", "format": "json", "categories": "news", "time_range": "week"}

    assert answer == {"results": [FOUND]}


async def test_brave_gets_its_key_in_a_header(context: ToolContext, stack: ExitStack) -> None:
    async with serving(results(BRIDGE)) as server:
        stack.enter_context(variables(RESEARCH_BRAVE_URL=server.origin, RESEARCH_BRAVE_API_KEY="brave-key-1"))
        answer = await call(research.web_search, context, query="bridge", max_results=3)
        assert request_of(server) == ("/res/v1/web/search", {"q": "bridge", "count": "3"})
        assert server.requests[-1].headers["x-subscription-token"] == "brave-key-1"
        news = await call(research.news_search, context, query="bridge", since="day")
        assert request_of(server) == ("/res/v1/news/search", {"q": "bridge", "count": "5", "freshness": "pd"})

    assert answer == news == {"results": [FOUND]}


async def test_tavily_is_asked_by_post(context: ToolContext, stack: ExitStack) -> None:
    async with serving(results(BRIDGE)) as server:
        stack.enter_context(variables(RESEARCH_TAVILY_URL=server.origin, RESEARCH_TAVILY_API_KEY="tavily-key-1"))
        answer = await call(research.news_search, context, query="bridge")
        assert request_of(server) == (
            "/search",
            {"query": "bridge", "max_results": 5, "topic": "news", "time_range": "month"},
        )
        assert server.requests[-1].headers["authorization"] == "Bearer tavily-key-1"

    assert answer == {"results": [FOUND]}


async def test_the_first_configured_engine_is_used(context: ToolContext, stack: ExitStack) -> None:
    async with serving(results(BRIDGE)) as searxng, serving(results()) as brave:
        stack.enter_context(
            variables(
                RESEARCH_SEARXNG_URL=searxng.origin, RESEARCH_BRAVE_URL=brave.origin, RESEARCH_BRAVE_API_KEY="key"
            )
        )
        await call(research.web_search, context, query="bridge")

    assert (len(searxng.requests), len(brave.requests)) == (1, 0)


async def test_results_that_are_no_web_pages_or_come_twice_are_left_out(context: ToolContext, stack: ExitStack) -> None:
    odd: list[Any] = [BRIDGE, BRIDGE, {**BRIDGE, "url": "javascript:alert(1)"}, {"title": "no url"}, 7, None]
    many = [{"title": f"{number}", "url": f"https://many.example/{number}"} for number in range(30)]
    async with serving(results(*odd, *many)) as server:
        stack.enter_context(variables(RESEARCH_SEARXNG_URL=server.origin))
        hits = (await call(research.web_search, context, query="bridge", max_results=1000))["results"]

    assert [hit["url"] for hit in hits[:2]] == ["https://news.example/bridge", "https://many.example/0"]
    assert len(hits) == 20


async def test_long_results_fit_into_what_the_model_is_shown(context: ToolContext, stack: ExitStack) -> None:
    long = [{"title": "t" * 5000, "url": f"https://long.example/{n}", "content": "c" * 9000} for n in range(20)]
    async with serving(results(*long)) as server:
        stack.enter_context(variables(RESEARCH_SEARXNG_URL=server.origin))
        answer = await call(research.web_search, context, query="bridge", max_results=20)

    assert len(json.dumps(answer)) < context.app_settings.tool_result_max_chars
    assert len(answer["results"]) > 5


async def test_no_results_are_no_error(context: ToolContext, stack: ExitStack) -> None:
    async with serving(reply(b'{"results": "none"}')) as server:
        stack.enter_context(variables(RESEARCH_SEARXNG_URL=server.origin))
        answer = await call(research.web_search, context, query="bridge")

    assert answer == {"results": [], "note": "Nothing was found; try other words."}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (reply(b"", 403), ToolError, "refuses this installation's access"),
        (reply(b"", 429), Unavailable, "no more searches just now"),
        (reply(b"", 500), Unavailable, "status 500"),
        (reply(b"<html>"), Unavailable, "did not answer with JSON"),
        (reply(b"x" * 3_000_000), ToolError, "is larger than"),
        # The engine is trusted, but not where it redirects to.
        (redirect("http://127.0.0.1:9/"), ToolError, "not on the public internet"),
    ],
)
async def test_an_engine_that_fails_gives_an_error_that_helps(
    context: ToolContext, stack: ExitStack, answer: Answer, error: type[Exception], message: str
) -> None:
    async with serving(answer) as server:
        stack.enter_context(variables(RESEARCH_SEARXNG_URL=server.origin))
        with pytest.raises(error, match=message):
            await call(research.web_search, context, query="bridge")


@pytest.mark.parametrize("query", ["", " \n", "x" * 1001])
async def test_a_query_without_words_or_too_long_is_refused(context: ToolContext, stack: ExitStack, query: str) -> None:
    stack.enter_context(variables(RESEARCH_SEARXNG_URL="http://127.0.0.1:9"))
    with pytest.raises(ToolError, match="query is"):
        await call(research.web_search, context, query=query)


async def test_without_an_engine_the_search_is_off_and_says_why(context: ToolContext) -> None:
    box = discover(settings=Settings())

    assert set(box.off) >= {"research.web_search", "research.news_search"}
    assert "RESEARCH_SEARXNG_URL" in box.off["research.web_search"]
    assert box.tools.get("research.web_search") is None
    assert box.tools.get("research.fetch_webpage") is not None
    with pytest.raises(ToolError, match="RESEARCH_SEARXNG_URL"):
        await call(research.web_search, context, query="bridge")


def test_with_an_engine_the_search_is_on(stack: ExitStack) -> None:
    stack.enter_context(variables(RESEARCH_BRAVE_API_KEY="key"))

    assert "research.news_search" in discover(settings=Settings()).tools


def test_a_wrong_setting_stops_the_start(stack: ExitStack) -> None:
    stack.enter_context(variables(RESEARCH_MAX_PAGE_MB="many"))

    with pytest.raises(ConfigurationError, match="RESEARCH_MAX_PAGE_MB is wrong"):
        discover(settings=Settings())


def test_reading_is_for_guests_and_spending_is_not() -> None:
    assert {name for name, tool in TOOLS.items() if tool.requires == Permission.GUEST} == {
        "web_search",
        "news_search",
        "fetch_webpage",
    }
    assert all(tool.read_only and tool.reads_untrusted for tool in TOOLS.values())
    # What sends words or addresses to strangers.
    assert {name for name, tool in TOOLS.items() if not tool.acts_on({})} == {"summarize_text"}
