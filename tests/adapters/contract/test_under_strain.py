"""The stories of the contract once more, while every platform is slow, refuses requests and breaks connections off.

`make slow` plays them, `make test` leaves them out. Most of their time is waiting: where the platform's library allows
several of its servers in a process, the stories are played side by side, each with a Parley of its own.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from shared.db.hosts import URL
from shared.settings import Settings
from tests.adapters.contract import test_contract, test_contract_changes, test_contract_faults, test_contract_places
from tests.adapters.contract.driver import PlatformDriver, drivers
from tests.conftest import new_database
from tests.standins.openai_api import OpenAIStub
from tests.support.shared import Shared

Story = Callable[..., Coroutine[Any, Any, None]]
# Each holds up to 20 of the 100 connections of the server.
SIDE_BY_SIDE = 4
# What a story can be played with; those with more kill or freeze processes of their own.
PLAYED_WITH = frozenset({"driver", "talk", "address", "model"})
# They make the strain themselves.
LEFT_OUT = frozenset(
    {
        "test_refusals_for_their_number_are_waited_for",
        "test_a_flood_is_answered_completely_within_the_platforms_limits",
        "test_a_slow_platform_changes_nothing",
    }
)


def stories() -> list[Story]:
    """Return the stories that are played under strain."""
    modules = (test_contract, test_contract_changes, test_contract_faults, test_contract_places)
    members = {name: value for module in modules for name, value in vars(module).items()}
    names = sorted(name for name in members if name.startswith("test_") and name not in LEFT_OUT)
    stories = [members[name] for name in names if inspect.iscoroutinefunction(members[name])]
    return [story for story in stories if PLAYED_WITH.issuperset(inspect.signature(story).parameters)]


def played_together() -> Iterator[Any]:
    """Yield each platform with the stories that one test plays."""
    for kind in drivers():
        if kind.is_one_per_process:
            yield from (pytest.param(kind, [story], id=f"{kind.name}-{story.__name__}") for story in stories())
        else:
            yield pytest.param(kind, stories(), id=kind.name)


async def play(story: Story, kind: type[PlatformDriver], settings: Settings, postgres: URL, shared: Shared) -> None:
    """Play one story on a strained platform with a database and a model of its own."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(OpenAIStub())
        address = await stack.enter_async_context(new_database(postgres))
        parameters = {"openai_base_url": model.base_url, "default_guest_token_budget": 1_000_000}
        driver = await stack.enter_async_context(kind.running(settings.model_copy(update=parameters), shared))
        driver.strain()
        driver.hurries = True
        if "talk" in inspect.signature(story).parameters:
            await stack.enter_async_context(driver.open(address, model))
            await story(driver)
        else:
            await story(driver, address, model)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "together"), list(played_together()))
async def test_the_stories_of_the_contract_hold_under_strain(
    kind: type[PlatformDriver], together: list[Story], settings: Settings, postgres: URL, shared: Shared
) -> None:
    room = asyncio.Semaphore(SIDE_BY_SIDE)

    async def play_in_turn(story: Story) -> None:
        async with room:
            await play(story, kind, settings, postgres, shared)

    ends = await asyncio.gather(*map(play_in_turn, together), return_exceptions=True)

    failed = {story.__name__: end for story, end in zip(together, ends, strict=True) if end is not None}
    if failed:
        raise ExceptionGroup(", ".join(failed), [end for end in failed.values() if isinstance(end, Exception)])
