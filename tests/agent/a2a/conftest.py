"""A house that knows one agent elsewhere, at an address where a test puts what it likes."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.agent.a2a.rough import Ask, Watched, asks
from tests.standins.a2a_agent import Far, Swap, serving
from tests.support.house import House


@pytest.fixture
async def swap() -> Swap:
    """What the peer is; a test may exchange it."""
    return Swap()


@pytest.fixture
async def url(swap: Swap) -> AsyncIterator[str]:
    """The address of a peer."""
    async with serving(swap) as url:
        yield url


@pytest.fixture
def far() -> Far:
    """An agent that does as it is told."""
    return Far()


@pytest.fixture
async def peers(house: House) -> AsyncIterator[Watched]:
    """What reaches agents at a url."""
    peers = Watched(house.app.database, house.app.http, house.app.secrets)
    yield peers
    await peers.aclose()


@pytest.fixture
async def ask(house: House, peers: Watched, url: str) -> Ask:
    """Ask the agent at the peer's address; an admin has added it."""
    await house.sql("INSERT INTO agents (name, description, url) VALUES ('far', 'Knows it.', :url)", url=url)

    return partial(asks, peers, house)
