"""A running Parley that knows one agent elsewhere, at an address where a test puts what it likes."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.agent.agents.a2a.rough import Ask, Watched, asks
from tests.standins.a2a_agent import Far, Swap, serving
from tests.support.parley import Parley
from tests.support.tasks import no_tasks_left

__all__ = ["no_tasks_left"]


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
async def peers(parley: Parley) -> AsyncIterator[Watched]:
    """What reaches agents at a url."""
    peers = Watched(parley.app.database, parley.app.files.http, parley.app.secrets)
    yield peers
    await peers.aclose()


@pytest.fixture
async def ask(parley: Parley, peers: Watched, url: str) -> Ask:
    """Ask the agent at the peer's address; an admin has added it."""
    await parley.sql("INSERT INTO agents (name, description, url) VALUES ('far', 'Knows it.', :url)", url=url)

    return partial(asks, peers, parley)
