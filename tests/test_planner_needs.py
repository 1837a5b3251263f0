"""Plans with needs: order, arguments, and the calls that a failure leaves out."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from agent.tools.modules import ModuleTools
from shared.db.database import Address
from shared.errors import ToolError
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import Tool, ToolContext, tool
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, open_parley
from tests.support.planning import call, plan, results_in

GIVEN: dict[str, Any] = {"start": "2027-01-17", "rooms": [{"price": 90}, {"price": 140}], "count": 3, "a.b": "dotted"}


class Kitchen:
    """A module whose tools record their arguments; calls in `held` wait until they are released."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.held = asyncio.Event()
        self.echoed = asyncio.Event()

    def tools(self) -> list[Tool]:
        """Return the tools."""

        @tool(requires=Permission.GUEST, read_only=True)
        async def give(_context: ToolContext) -> dict[str, Any]:
            """Return an object."""
            return GIVEN

        @tool(requires=Permission.GUEST, read_only=True)
        async def fail(_context: ToolContext, why: str = "The oven is cold.") -> str:
            """Fail."""
            raise ToolError(why)

        @tool(requires=Permission.GUEST, read_only=True)
        async def hold(_context: ToolContext) -> str:
            """Wait."""
            await self.held.wait()
            return "held"

        @tool(requires=Permission.GUEST)
        async def echo(_context: ToolContext, value: Any = None, more: Any = None) -> Any:
            """Return the argument."""
            self.begun.append(value)
            self.echoed.set()
            return {"value": value, "more": more}

        return [replace(entry, module="kitchen") for entry in (give, fail, hold, echo)]


@pytest.fixture
def kitchen() -> Kitchen:
    """The module of these tests."""
    return Kitchen()


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub, kitchen: Kitchen) -> AsyncIterator[Parley]:
    """An installation in planner mode with only the kitchen's tools."""
    configuration = settings.model_copy(
        update={
            "planner_percent": 100,
            "default_guest_modules": ("kitchen",),
            "default_guest_token_budget": 1_000_000,
        }
    )
    async with open_parley(configuration, address, model, modules=ModuleTools(kitchen.tools())) as parley:
        yield parley
        assert model.refusals == []


def echo(plan_id: str, *needs: str, **args: Any) -> dict[str, Any]:
    """Return a call of `echo` for a plan."""
    return call("kitchen.echo", plan_id, *needs, **args)


GIVE, FAIL, HOLD = call("kitchen.give", "g"), call("kitchen.fail", "x"), call("kitchen.hold", "h")


REFERENCES: list[tuple[Any, Any]] = [
    ("$g", GIVEN),
    ("$g.start", "2027-01-17"),
    ("$g.count", 3),
    ("$g.rooms.1.price", 140),
    ("$g.rooms.1", {"price": 140}),
    ({"deep": ["$g.count", {"deeper": "$g.start"}]}, {"deep": [3, {"deeper": "2027-01-17"}]}),
    ("from $g.start on", "from 2027-01-17 on"),
    ("On ${g.start}. For $g.count, ${g.rooms.0.price}each.", "On 2027-01-17. For 3, 90each."),
    ("${g.count}", 3),
    ("$g.rooms.0 or ${unknown.a} or ${g.count", '{"price": 90} or ${unknown.a} or ${g.count'),
    ("$5.00", "$5.00"),
    ("$unknown.start", "$unknown.start"),
    ("$g .start", f"{json.dumps(GIVEN)} .start"),
    ("", ""),
]


async def test_a_result_in_an_argument_keeps_its_type(
    parley: Parley, model: OpenAIStub, subtests: pytest.Subtests
) -> None:
    for number, (reference, value) in enumerate(REFERENCES):
        with subtests.test(repr(reference)):
            model.play([plan(GIVE, echo("e", "g", value=reference)), plan(response="Done.")])

            reply = await parley.ask("go", user=f"user-{number}")

            assert reply.tool_calls_made[1].args == {"value": value}
            assert reply.tool_calls_made[1].result["value"] == value


async def test_a_reference_is_a_need_without_being_listed(parley: Parley, model: OpenAIStub) -> None:
    model.play([plan(echo("e", value="$g.count"), GIVE), plan(response="Done.")])

    reply = await parley.ask("go")

    # In the order of the plan, although they ran in the opposite order.
    assert [(call.tool, call.args) for call in reply.tool_calls_made] == [
        ("kitchen.echo", {"value": 3}),
        ("kitchen.give", {}),
    ]
    assert list(results_in(model.requests[-1].body)) == ["e", "g"]


async def test_a_number_may_be_an_id_and_a_price_stays_a_price(parley: Parley, model: OpenAIStub) -> None:
    tools = [{**GIVE, "id": 5}, {**echo("e", value="$5.count"), "needs": [5]}, echo("p", value="$5.50")]
    model.play([plan(*tools), plan(response="Done.")])

    reply = await parley.ask("go")

    assert [call.args for call in reply.tool_calls_made] == [{}, {"value": 3}, {"value": "$5.50"}]


async def test_an_earlier_plan_of_the_turn_may_be_needed_too(parley: Parley, model: OpenAIStub) -> None:
    model.play(
        [
            plan(GIVE, echo("e", value="first")),
            plan(echo("e", value="second"), echo("f", "g", value="$g.count", more="$e.value")),
            plan(response="Done."),
        ]
    )

    reply = await parley.ask("go")

    assert reply.tool_calls_made[-1].args == {"value": 3, "more": "second"}


async def test_a_call_begins_as_soon_as_its_own_needs_have_ended(
    parley: Parley, model: OpenAIStub, kitchen: Kitchen
) -> None:
    model.play([plan(HOLD, GIVE, echo("e", "g", value=1), echo("f", "e", "h", value=2)), plan(response="Done.")])
    accepted = await parley.accept("go")

    async with asyncio.timeout(30):
        await kitchen.echoed.wait()
    assert kitchen.begun == [1]
    kitchen.held.set()

    reply = await parley.app.events.response(accepted.inbox_id)
    assert (reply.content, kitchen.begun) == ("Done.", [1, 2])
    assert await parley.value("SELECT waves FROM turns") == 3


async def test_what_needs_a_call_that_failed_is_left_out_and_the_rest_runs(
    parley: Parley, model: OpenAIStub, kitchen: Kitchen
) -> None:
    tools = [FAIL, echo("a", "x", value="$x.nothing"), echo("b", "a", value=2), echo("c", value=3)]
    model.play([plan(*tools, status="done", response="All went well."), plan(response="Not all.")])

    reply = await parley.ask("go")

    assert (reply.content, kitchen.begun) == ("Not all.", [3])
    results = results_in(model.requests[1].body)
    assert results["x"]["message"] == "The oven is cold."
    assert results["a"]["message"] == "Not run, because what it needs has failed or was left out: x."
    assert results["b"]["message"] == "Not run, because what it needs has failed or was left out: a."
    assert results["c"]["value"] == 3


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("$g.end", "$g.end: the result has no 'end' there; it has: start, rooms, count, a.b."),
        ("$g.rooms.2", "$g.rooms.2: the result has no '2' there; it has: 0, 1."),
        ("$g.rooms.first", "$g.rooms.first: the result has no 'first' there; it has: 0, 1."),
        ("$g.count.1", "$g.count.1: the result has no '1' there; it has: nothing."),
    ],
)
async def test_a_field_that_is_not_there_is_an_error_the_model_can_read(
    parley: Parley, model: OpenAIStub, kitchen: Kitchen, reference: str, message: str
) -> None:
    model.play([plan(GIVE, echo("e", "g", value=reference)), plan(response="Sorry.")])

    reply = await parley.ask("go")

    assert (reply.content, kitchen.begun) == ("Sorry.", [])
    assert reply.tool_calls_made[1].args == {"value": reference}
    assert reply.tool_calls_made[1].result == {"error": True, "message": message}


@pytest.mark.parametrize(("text", "argument"), [("x" * 7000, ["$b"] * 500), ("x", "$b.value " * 50_000)])
async def test_results_cannot_inflate_the_arguments(
    parley: Parley, model: OpenAIStub, kitchen: Kitchen, text: str, argument: Any
) -> None:
    model.play([plan(echo("b", value=text), echo("e", "b", value=argument)), plan(response="Too much.")])

    reply = await parley.ask("go")

    assert kitchen.begun == [text]
    assert "larger than 1,000,000 characters" in reply.tool_calls_made[1].result["message"]


async def test_a_call_left_out_for_its_needs_does_not_count_as_a_failure(
    parley: Parley, model: OpenAIStub, kitchen: Kitchen
) -> None:
    fails = [call("kitchen.fail", "x", why=f"{word} is cold.") for word in ("It", "All", "This")]
    plans = [plan(fail, echo("e", "x", value=1)) for fail in fails]
    model.play([*plans, plan(echo("e", value=1)), plan(response="At last.")])

    reply = await parley.ask("go")

    assert (reply.content, reply.error, kitchen.begun) == ("At last.", None, [1])


async def test_a_tool_that_keeps_failing_in_plans_ends_the_turn(parley: Parley, model: OpenAIStub) -> None:
    fails = call("kitchen.fail", why="The oven is cold.")
    model.play(lambda _body, _number: Answer(plan(fails, echo("e", "a"))))

    reply = await parley.ask("go")

    assert (reply.error, reply.iterations) == ("circuit_breaker", 3)
    assert "kitchen.fail failed three times in a row" in reply.content
