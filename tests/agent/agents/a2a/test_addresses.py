"""Where an agent is: its card, the origins that are trusted, and what is sent where."""

import os

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from agent.agents.a2a.client import RemoteAgents, list_card_urls
from shared.errors import ToolError, Unavailable
from tests.agent.agents.a2a.rough import CARD, Ask, Watched, asks, far_text, last_error, rough
from tests.standins.a2a_agent import Far, Swap, build_agent, serving
from tests.support.parley import Parley


async def test_a_file_somewhere_inside_is_not_fetched(ask: Ask, far: Far, swap: Swap, url: str) -> None:
    swap.inner = build_agent(far, url)
    inside = Swap(Starlette(routes=[Route("/{path:path}", far_text)]))
    async with serving(inside) as elsewhere:
        answer = await ask(f"parts {elsewhere}/secret.txt")

    assert [file.filename for file in answer.files] == ["table.csv"]
    assert "far.txt is missing" in answer.text
    assert inside.requests == []


async def test_the_rows_token_goes_to_its_origin(ask: Ask, far: Far, swap: Swap, url: str, parley: Parley) -> None:
    os.environ["A2A_TEST_TOKEN"] = "s3cret"
    await parley.sql("""UPDATE agents SET headers = '{"Authorization": "Bearer ${A2A_TEST_TOKEN}"}'""")
    swap.inner = build_agent(far, url)

    await ask("echo hello")

    assert far.headers[0]["authorization"] == "Bearer s3cret"


async def test_a_secret_of_ours_can_not_be_named(ask: Ask, far: Far, swap: Swap, url: str, parley: Parley) -> None:
    await parley.sql("""UPDATE agents SET headers = '{"Authorization": "Bearer ${API_TOKEN}"}'""")
    swap.inner = build_agent(far, url)

    with pytest.raises(Unavailable, match="A2A_"):
        await ask("echo hello")
    assert swap.requests == []


async def test_an_address_inside_that_only_the_card_names_is_not_called(
    ask: Ask, far: Far, swap: Swap, parley: Parley, url: str
) -> None:
    inside = Swap(build_agent(far, "http://nowhere"))
    async with serving(inside) as elsewhere:
        swap.inner = build_agent(far, elsewhere)
        with pytest.raises(ToolError, match="not on the public internet"):
            await ask("echo hello")

    assert inside.requests == []
    assert far.asked == []
    assert "not on the public internet" in await last_error(parley)


async def test_another_origin_that_settings_allow_is_called_without_the_token(
    ask: Ask, far: Far, swap: Swap, parley: Parley, peers: Watched
) -> None:
    from shared.http.client import GuardedClient

    await parley.sql("""UPDATE agents SET headers = '{"Authorization": "Bearer x"}'""")
    inside = Swap()
    async with serving(inside) as elsewhere:
        inside.inner = build_agent(far, elsewhere)
        swap.inner = build_agent(far, elsewhere)
        http = GuardedClient(parley.app.settings.model_copy(update={"egress_allow": (elsewhere,)}))
        agents = RemoteAgents(parley.app.database, http, parley.app.secrets)
        answer = await asks(agents, parley, "echo hello")
        await http.aclose()

    assert answer.text == "Far says: hello"
    assert "authorization" not in far.headers[0]


async def test_an_interface_at_the_rows_origin_is_preferred(ask: Ask, far: Far, swap: Swap, url: str) -> None:
    interfaces = [
        {"url": "http://169.254.169.254/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": f"{url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
    ]
    card = {"name": "Two", "description": "x", "version": "1", "supportedInterfaces": interfaces, "capabilities": {}}
    inner = build_agent(far, url)
    inner.router.routes.insert(0, Route(CARD, lambda _request: JSONResponse(card)))
    swap.inner = inner

    assert (await ask("echo hello")).text == "Far says: hello"


async def test_the_card_is_fetched_once_and_shown_to_the_admin(
    ask: Ask, far: Far, swap: Swap, url: str, parley: Parley
) -> None:
    swap.inner = build_agent(far, url)
    await ask("echo one")
    await ask("echo two")

    assert [path for _, path in swap.requests].count(CARD) == 1
    assert await parley.value("SELECT card->>'name' FROM agents") == "Far"
    assert await parley.value("SELECT card_fetched_at > now() - interval '1 minute' FROM agents")


async def test_a_card_is_fetched_anew_after_a_failure_and_a_change_of_the_row(
    ask: Ask, far: Far, swap: Swap, url: str, parley: Parley
) -> None:
    swap.inner = build_agent(far, url)
    await ask("echo one")
    swap.inner = Starlette()
    with pytest.raises(Unavailable):
        await ask("echo two")
    assert "404" in await last_error(parley)

    swap.inner = build_agent(far, url)
    assert (await ask("echo three")).text == "Far says: three"
    assert await parley.value("SELECT last_error FROM agents") is None

    other = Swap()
    async with serving(other) as elsewhere:
        other.inner = build_agent(far, elsewhere)
        await parley.sql("UPDATE agents SET url = :url", url=elsewhere)
        assert (await ask("echo four")).text == "Far says: four"
        assert CARD in [path for _, path in other.requests]


async def test_a_card_may_be_at_the_old_place_or_where_the_row_says(
    ask: Ask, far: Far, swap: Swap, url: str, parley: Parley
) -> None:
    inner = build_agent(far, url)
    card = inner.router.routes.pop(0)
    assert isinstance(card, Route)
    inner.router.routes.insert(0, Route("/.well-known/agent.json", card.endpoint))
    swap.inner = inner
    assert (await ask("echo hello")).text == "Far says: hello"

    await parley.sql("UPDATE agents SET url = :url", url=f"{url}/.well-known/agent.json")
    assert (await ask("echo hello")).text == "Far says: hello"


def test_a_card_is_looked_for_below_the_address_and_at_its_root() -> None:
    assert list_card_urls("https://a.example/agents/far/") == [
        "https://a.example/agents/far/.well-known/agent-card.json",
        "https://a.example/.well-known/agent-card.json",
        "https://a.example/agents/far/.well-known/agent.json",
        "https://a.example/.well-known/agent.json",
    ]
    assert len(list_card_urls("https://a.example")) == 2
    assert list_card_urls("https://a.example/card.json") == ["https://a.example/card.json"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(status: int, ask: Ask, swap: Swap, url: str, far: Far) -> None:
    inside = Swap()
    async with serving(inside) as elsewhere:
        inside.inner = build_agent(far, elsewhere)

        async def away(request: Request) -> Response:
            return RedirectResponse(f"{elsewhere}{request.url.path}", status)

        swap.inner = rough(url, away)
        with pytest.raises(Unavailable, match=f"HTTP status {status}"):
            await ask("echo hello")
        swap.inner = Starlette(routes=[Route("/{path:path}", away)])
        with pytest.raises(Unavailable, match=f"HTTP status {status}"):
            await ask("echo hello")

    assert inside.requests == []


async def test_nobody_at_the_address_is_an_error(parley: Parley, peers: Watched) -> None:
    await parley.sql("INSERT INTO agents (name, description, url) VALUES ('far', 'Knows it.', 'http://127.0.0.1:1')")

    with pytest.raises(Unavailable, match="can't be reached"):
        await asks(peers, parley, "anything")
