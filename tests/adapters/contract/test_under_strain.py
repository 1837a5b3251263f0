"""The stories of the contract once more, while every platform is slow, refuses requests and breaks connections off.

Each run of the tests plays the most important ones, `make slow` all of them. Most of their time is waiting: where the
platform's library allows several of its servers in a process, the stories are played side by side, each with a Parley
of its own.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from sqlalchemy import URL

from shared.settings import Settings
from tests.adapters.contract import test_contract, test_contract_changes, test_contract_faults, test_contract_places
from tests.adapters.contract.driver import PlatformDriver, drivers
from tests.conftest import new_database
from tests.standins.openai_api import OpenAIStub
from tests.standins.stand_in import latency

Story = Callable[..., Coroutine[Any, Any, None]]
# Each holds up to 20 of the 100 connections of the server.
SIDE_BY_SIDE = 4
IN_EVERY_RUN = frozenset(
    {
        "test_a_file_of_the_answer_goes_out",
        "test_a_long_answer_arrives_whole_and_in_order_with_balanced_fences",
        "test_a_message_that_is_deleted_before_its_answer_is_withdrawn_and_forgotten",
        "test_a_question_is_answered_once_and_belongs_to_it",
        "test_a_running_answer_is_stopped_by_the_button_of_who_asked",
        "test_a_yes_is_a_click_of_who_was_asked_whatever_was_said_since",
        "test_what_was_missed_while_nobody_listened_is_answered_in_order",
    }
)
# They make the strain themselves.
LEFT_OUT = frozenset(
    {
        "test_refusals_for_their_number_are_waited_for",
        "test_a_flood_is_answered_completely_within_the_platforms_limits",
        "test_a_slow_platform_changes_nothing",
        "test_an_answer_goes_on_in_the_same_message_when_its_worker_is_killed",
        "test_a_worker_that_was_frozen_before_it_posted_leaves_the_reply_to_the_one_that_posts",
    }
)


def stories() -> list[Story]:
    """Return the stories that are played under strain."""
    modules = (test_contract, test_contract_changes, test_contract_faults, test_contract_places)
    members = {name: value for module in modules for name, value in vars(module).items()}
    names = sorted(name for name in members if name.startswith("test_") and name not in LEFT_OUT)
    if not latency():
        names = [name for name in names if name in IN_EVERY_RUN]
    return [members[name] for name in names if inspect.iscoroutinefunction(members[name])]


def played_together() -> Iterator[Any]:
    """Yield each platform with the stories that one test plays."""
    for kind in drivers():
        if kind.is_one_per_process:
            yield from (pytest.param(kind, [story], id=f"{kind.name}-{story.__name__}") for story in stories())
        else:
            yield pytest.param(kind, stories(), id=kind.name)


async def play(story: Story, kind: type[PlatformDriver], settings: Settings, postgres: URL) -> None:
    """Play one story on a strained platform with a database and a model of its own."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(OpenAIStub())
        address = await stack.enter_async_context(new_database(postgres))
        parameters = {"openai_base_url": model.base_url, "default_guest_token_budget": 1_000_000}
        driver = await stack.enter_async_context(kind.running(settings.model_copy(update=parameters)))
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
    kind: type[PlatformDriver], together: list[Story], settings: Settings, postgres: URL
) -> None:
    room = asyncio.Semaphore(SIDE_BY_SIDE)

    async def play_in_turn(story: Story) -> None:
        async with room:
            await play(story, kind, settings, postgres)

    ends = await asyncio.gather(*map(play_in_turn, together), return_exceptions=True)

    failed = {story.__name__: end for story, end in zip(together, ends, strict=True) if end is not None}
    if failed:
        raise ExceptionGroup(", ".join(failed), [end for end in failed.values() if isinstance(end, Exception)])
