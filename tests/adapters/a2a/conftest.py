"""A running Parley that peers ask, and peers of both generations."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from shared.settings import Settings
from tests.adapters.a2a.callers import GENERATIONS, Peer, connected, say_it_back
from tests.adapters.web.conftest import TOKEN, Site, open_site
from tests.support.parley import Parley
from tests.support.tasks import no_tasks_left

__all__ = ["no_tasks_left"]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings of a Parley with a web adapter, a small limit for bodies, and room for many turns."""
    parameters = {"api_token": SecretStr(TOKEN), "port": 0, "max_body_mb": 3, "default_guest_token_budget": 1_000_000}
    return settings.model_copy(update=parameters)


@pytest.fixture
async def site(parley: Parley) -> AsyncIterator[Site]:
    """The web adapter of a Parley with a worker, whose model says back what it hears."""
    parley.model.play(say_it_back)
    async with open_site(parley) as site:
        yield site


@pytest.fixture(params=GENERATIONS)
async def peer(site: Site, request: pytest.FixtureRequest) -> AsyncIterator[Peer]:
    """A peer that follows streams."""
    async with connected(site, request.param) as peer:
        yield peer


@pytest.fixture
async def newer(site: Site) -> AsyncIterator[Peer]:
    """A peer of the newer generation, for what is the same in both once a message has been read."""
    async with connected(site, GENERATIONS[0]) as peer:
        yield peer


@pytest.fixture(params=GENERATIONS)
async def poller(site: Site, request: pytest.FixtureRequest) -> AsyncIterator[Peer]:
    """A peer that asks and waits."""
    async with connected(site, request.param, streams=False) as peer:
        yield peer
