"""Every driver in turn, with its stand-in running; `talk` has Parley open as well."""

from collections.abc import AsyncIterator

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.contract.driver import PlatformDriver, drivers
from tests.standins.openai_api import OpenAIStub
from tests.support.shared import Shared


@pytest.fixture(params=drivers(), ids=lambda kind: kind.name)
async def driver(request: pytest.FixtureRequest, settings: Settings, shared: Shared) -> AsyncIterator[PlatformDriver]:
    """A platform with two people; Parley is closed, for stories that open it themselves."""
    kind: type[PlatformDriver] = request.param
    async with kind.running(settings.model_copy(update={"default_guest_token_budget": 1_000_000}), shared) as driver:
        yield driver


@pytest.fixture
async def talk(driver: PlatformDriver, address: Address, model: OpenAIStub) -> AsyncIterator[PlatformDriver]:
    """The same platform with Parley open."""
    async with driver.open(address, model):
        yield driver
