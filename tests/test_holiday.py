"""The holiday case: "availability for Hanukkah and also next weekend", asked and answered over real HTTP."""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from agent.tools.modules import ModuleTools, discover
from shared.db.database import Address
from shared.errors import ToolError
from shared.settings import Settings
from shared.tools import Tool
from tests.adapters.web.conftest import TOKEN, Site, open_site
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body, Script
from tests.standins.pms import Hotel
from tests.support.parley import open_parley
from tests.support.planning import call, plan, results_in

HOLIDAY, HINT, AVAILABILITY = "calendar__resolve_holiday", "calendar__resolve_date_hint", "pms__get_availability"
STAY = "pms.get_availability"
DATES = (
    call("calendar.resolve_holiday", "holiday", holiday_name="Hanukkah"),
    call("calendar.resolve_date_hint", "weekend", hint="next weekend"),
)
QUESTION = "availability for Hanukkah and also next weekend"
FIRST, SECOND = "2027-01-17", "2027-02-20"
Visit = Callable[..., Any]


async def meet(company: asyncio.Barrier) -> None:
    """Wait at the barrier."""
    await company.wait()


def in_company(tool: Tool, company: asyncio.Barrier) -> Tool:
    """Return the tool, whose calls end only when as many have begun as the barrier requires."""

    @functools.wraps(tool.run)
    async def run(*positional: Any, **arguments: Any) -> Any:
        await company.wait()
        return await tool.run(*positional, **arguments)

    return replace(tool, run=run)


@pytest.fixture
def visit(settings: Settings, address: Address, model: OpenAIStub) -> Visit:
    """Open the web adapter with the calendar and this hotel; with `company` date look-ups wait for each other."""

    @asynccontextmanager
    async def opened(
        hotel: Hotel, company: asyncio.Barrier | None = None, *, plans: bool = False
    ) -> AsyncIterator[Site]:
        dates = [tool for tool in discover().tools.values() if tool.module == "calendar"]
        if company is not None:
            dates = [in_company(tool, company) for tool in dates]
        configuration = settings.model_copy(
            update={
                "default_guest_modules": ("calendar", "pms"),
                "default_guest_token_budget": 100_000,
                "api_token": SecretStr(TOKEN),
                "port": 0,
                "planner_percent": 100 if plans else 0,
            }
        )
        modules = ModuleTools([*dates, hotel.tool()])
        async with open_parley(configuration, address, model, modules=modules) as parley, open_site(parley) as site:
            yield site

    return opened


def results_of(body: Body) -> list[dict[str, Any]]:
    """Return the results of the last wave, in the order in which the model is shown them."""
    results: list[dict[str, Any]] = []
    for message in reversed(body["messages"]):
        if message["role"] != "tool":
            break
        results.insert(0, json.loads(message["content"]))
    return results


def plays_concierge(body: Body, _number: int) -> Answer:
    """Find both dates, then both availabilities, then answer with the results."""
    results = results_of(body)
    if not results:
        return Answer(tool_calls=[(HOLIDAY, {"holiday_name": "Hanukkah"}), (HINT, {"hint": "next weekend"})])
    if "start" in results[0]:
        stays = [{"check_in": result["check_in"], "check_out": result["check_out"]} for result in results]
        return Answer(tool_calls=[(AVAILABILITY, stay) for stay in stays])
    return Answer(" and ".join(f"{result['nights']} nights from {result['check_in']}" for result in results))


def asks_for_both(body: Body, _number: int) -> Answer:
    """Ask for two stays at once, then answer."""
    if not results_of(body):
        starts = [date.fromisoformat(day) for day in (FIRST, SECOND)]
        stays = [{"check_in": str(start), "check_out": str(start + timedelta(days=2))} for start in starts]
        return Answer(tool_calls=[(AVAILABILITY, stay) for stay in stays])
    return Answer("That is all.")


async def ask(site: Site, question: str) -> dict[str, Any]:
    """Ask over HTTP; return the answer's JSON."""
    response = await site.posts(question)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_a_holiday_and_a_weekend_take_two_waves_and_three_model_calls(visit: Visit, model: OpenAIStub) -> None:
    # No call of a wave ends before the other has begun, so that sequential calls would wait for ever.
    dates, stays = asyncio.Barrier(2), asyncio.Barrier(2)
    model.play(plays_concierge)

    async with visit(Hotel(before=lambda _check_in: meet(stays)), company=dates) as site:
        answer = await ask(site, QUESTION)

    holiday, weekend, first, second = (call["result"] for call in answer["tool_calls_made"])
    assert [call["tool"] for call in answer["tool_calls_made"]] == [
        "calendar.resolve_holiday",
        "calendar.resolve_date_hint",
        "pms.get_availability",
        "pms.get_availability",
    ]
    assert (holiday["name"], holiday["days"]) == ("Hanukkah", 8)
    assert [date.fromisoformat(weekend[end]).weekday() for end in ("start", "end")] == [5, 6]
    assert [date.fromisoformat(weekend[end]).weekday() for end in ("check_in", "check_out")] == [4, 6]
    assert [first["check_in"], second["check_in"]] == [holiday["start"], weekend["check_in"]]
    assert answer["content"] == f"8 nights from {holiday['start']} and 2 nights from {weekend['check_in']}"
    assert (answer["iterations"], answer["finished"], answer["error"]) == (3, True, None)
    assert len(model.requests) == 3


def plans_as_it_goes(body: Body, _number: int) -> Answer:
    """Plan the dates, then the stays, then the response."""
    results = results_in(body)
    if not results:
        return Answer(plan(*DATES))
    if "holiday" in results:
        stays = {name: {day: results[name][day] for day in ("check_in", "check_out")} for name in results}
        return Answer(plan(*(call(STAY, f"stay-{name}", **dates) for name, dates in stays.items()), status="done"))
    return Answer(plan(response=in_words(results)))


def plans_ahead(body: Body, _number: int) -> Answer:
    """Plan the dates and the stays in one plan, the stays with references to the dates; then the response."""
    results = results_in(body)
    if results:
        return Answer(plan(response=in_words(results)))
    stays = [
        call(STAY, f"stay-{name}", name, check_in=f"${name}.check_in", check_out=f"${name}.check_out")
        for name in ("holiday", "weekend")
    ]
    return Answer(plan(*DATES, *stays, status="done"))


def in_words(results: dict[str, Any]) -> str:
    """Return the two stays as the person reads them."""
    return " and ".join(
        f"{stay['nights']} nights from {stay['check_in']}" for key, stay in results.items() if "stay" in key
    )


@pytest.mark.parametrize(("plays", "model_calls"), [(plans_as_it_goes, 3), (plans_ahead, 2)])
async def test_in_planner_mode_it_takes_two_waves_too_and_at_most_three_model_calls(
    visit: Visit, model: OpenAIStub, plays: Script, model_calls: int
) -> None:
    dates, stays = asyncio.Barrier(2), asyncio.Barrier(2)
    model.play(plays)

    async with visit(Hotel(before=lambda _check_in: meet(stays)), company=dates, plans=True) as site:
        answer = await ask(site, QUESTION)
        waves = await site.parley.value("SELECT waves FROM turns")

    holiday, weekend, first, second = (call["result"] for call in answer["tool_calls_made"])
    assert [call["tool"] for call in answer["tool_calls_made"]][:2] == [
        "calendar.resolve_holiday",
        "calendar.resolve_date_hint",
    ]
    assert [first["check_in"], second["check_in"]] == [holiday["start"], weekend["check_in"]]
    # The recorded arguments are the final ones, not the references of the plan.
    assert answer["tool_calls_made"][2]["args"] == {"check_in": holiday["start"], "check_out": holiday["end"]}
    assert answer["content"] == f"8 nights from {holiday['start']} and 2 nights from {weekend['check_in']}"
    assert (answer["iterations"], answer["finished"], answer["error"], waves) == (model_calls, True, None, 2)
    assert len(model.requests) == model_calls
    assert model.refusals == []


@pytest.mark.parametrize("status", ["continue", "done"])
async def test_in_planner_mode_dates_that_need_no_calendar_take_one_wave_and_two_model_calls(
    visit: Visit, model: OpenAIStub, status: str
) -> None:
    def reads_dates(body: Body, _number: int) -> Answer:
        results = results_in(body)
        if not results:
            return Answer(plan(call(STAY, check_in="2027-01-17", check_out="2027-01-19"), status=status))
        return Answer(plan(response=", ".join(f"{room['room']} {room['price']}" for room in results["a"]["rooms"])))

    model.play(reads_dates)

    async with visit(Hotel(), plans=True) as site:
        answer = await ask(site, "availability for January 17-19")

    assert answer["content"] == "garden 180, tower 280"
    assert (answer["iterations"], len(answer["tool_calls_made"]), len(model.requests)) == (2, 1, 2)


async def test_dates_that_need_no_calendar_take_one_wave_and_two_model_calls(visit: Visit, model: OpenAIStub) -> None:
    def reads_dates(body: Body, _number: int) -> Answer:
        results = results_of(body)
        if not results:
            return Answer(tool_calls=[(AVAILABILITY, {"check_in": "2027-01-17", "check_out": "2027-01-19"})])
        return Answer(", ".join(f"{room['room']} {room['price']}" for room in results[0]["rooms"]))

    model.play(reads_dates)

    async with visit(Hotel()) as site:
        answer = await ask(site, "availability for January 17-19")

    assert answer["content"] == "garden 180, tower 280"
    assert (answer["iterations"], len(answer["tool_calls_made"]), len(model.requests)) == (2, 1, 2)


async def test_results_keep_the_models_order_whichever_ends_first(visit: Visit, model: OpenAIStub) -> None:
    second_is_done = asyncio.Event()

    async def first_ends_last(check_in: date) -> None:
        if str(check_in) == FIRST:
            await second_is_done.wait()
        second_is_done.set()

    model.play(asks_for_both)

    async with visit(Hotel(before=first_ends_last)) as site:
        answer = await ask(site, "both stays")

    assert [call["result"]["check_in"] for call in answer["tool_calls_made"]] == [FIRST, SECOND]
    assert [result["check_in"] for result in results_of(model.requests[-1].body)] == [FIRST, SECOND]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (ToolError("The booking system is closed in January."), "The booking system is closed in January."),
        (RuntimeError("secret detail"), "pms.get_availability failed unexpectedly."),
    ],
)
async def test_a_call_that_fails_does_not_affect_the_others(
    visit: Visit, model: OpenAIStub, fault: Exception, message: str
) -> None:
    both_have_begun, first_has_failed = asyncio.Barrier(2), asyncio.Event()

    async def first_fails(check_in: date) -> None:
        await meet(both_have_begun)
        if str(check_in) == FIRST:
            first_has_failed.set()
            raise fault
        await first_has_failed.wait()

    model.play(asks_for_both)

    async with visit(Hotel(before=first_fails)) as site:
        answer = await ask(site, "both stays")

    failed, success = (call["result"] for call in answer["tool_calls_made"])
    assert (failed["error"], failed["message"]) == (True, message)
    assert success["check_in"] == SECOND
    assert (answer["content"], answer["finished"]) == ("That is all.", True)


async def test_only_the_call_that_never_ends_times_out(visit: Visit, model: OpenAIStub) -> None:
    async def first_never_ends(check_in: date) -> None:
        if str(check_in) == FIRST:
            await asyncio.Event().wait()

    model.play(asks_for_both)

    async with visit(Hotel(before=first_never_ends, timeout_seconds=0.5)) as site:
        answer = await ask(site, "both stays")

    given_up, success = (call["result"] for call in answer["tool_calls_made"])
    assert "took longer than" in given_up["message"]
    assert success["check_in"] == SECOND
    assert (answer["content"], answer["finished"]) == ("That is all.", True)
