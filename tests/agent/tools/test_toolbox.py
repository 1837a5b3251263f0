"""The toolbox: schemas from signatures, offers by permission, and calls that always come back with a result."""

import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from agent.people.participants import ResolvedPersona
from agent.tools.calls import PendingCall, read_arguments
from agent.tools.modules import ModuleTools
from agent.tools.offer import Scope, to_wire_name
from agent.tools.outcomes import Outcome, is_error
from agent.tools.toolbox import Toolbox, find_objection
from shared.errors import NotFound, ToolError, Unavailable
from shared.messages import Caller, Permission, Place
from shared.tools import Tool, ToolContext, tool
from tests.support.tool_calls import bare_context

WIRE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
LIMIT = 2000
PLACE = Place("test", None, "dm", is_direct=True)
# These tools ask their context for nothing but who calls.


@dataclass
class Runs:
    """How often the tools below ran."""

    count: int = 0


@tool(requires=Permission.GUEST, read_only=True)
async def add(
    context: ToolContext, a: int, b: Annotated[int, Field(ge=0)] = 1, unit: Literal["m", "km"] = "m"
) -> dict[str, Any]:
    """Add two lengths.

    The second is 1 when it is left out.
    """
    return {"sum": a + b, "unit": unit, "who": context.user.name}


@tool(requires=Permission.ADMIN)
async def restart(context: ToolContext) -> str:
    """Restart everything."""
    return "restarted"


@tool(requires=Permission.GUEST)
async def flood(context: ToolContext, size: int, mark: str = "x") -> list[str]:
    """Say a lot."""
    return [mark * 10] * size


@tool(requires=Permission.GUEST)
async def refuse(context: ToolContext) -> str:
    """Refuse what is asked."""
    raise NotFound(what="river")


@tool(requires=Permission.GUEST, timeout_seconds=0.01)
async def wait(context: ToolContext) -> str:
    """Never come back."""
    await asyncio.Event().wait()
    return ""


@tool(requires=Permission.GUEST)
async def odd(context: ToolContext) -> Any:
    """Return what JSON has no word for."""
    return {"nan": float("nan"), "nul": "a\x00b", "half": "\ud800", "set": {1}, 2: Path("x"), "bytes": b"abc"}


def failing(runs: Runs, error: BaseException, *, repeatable: bool, heals: bool = False) -> Tool:
    """Return a tool that raises, each time or only the first."""

    @tool(requires=Permission.GUEST, repeatable=repeatable)
    async def fail(context: ToolContext) -> str:
        """Fail."""
        runs.count += 1
        if heals and runs.count > 1:
            return "well again"
        raise error

    return fail


BEGUN = asyncio.Event()


@tool(requires=Permission.GUEST)
async def wait_for_ever(context: ToolContext) -> str:
    """Wait."""
    BEGUN.set()
    await asyncio.Event().wait()
    return "never"


TOOLS = (add, restart, flood, refuse, wait, odd, wait_for_ever)
BOX = Toolbox((ModuleTools(TOOLS),), LIMIT)


def scope(permission: Permission = Permission.GUEST, modules: frozenset[str] | None = None) -> Scope:
    persona = ResolvedPersona(None, "Parley", "", modules, None, 1000, 10)
    return Scope(Caller(1, permission, "Ann"), persona, PLACE, {})


async def call(name: str, arguments: Any = "{}", *, box: Toolbox = BOX, asker: Scope | None = None) -> Outcome:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    who = asker or scope()
    pending = PendingCall("call-1", name, read_arguments(text), who, box.offered_to(who))
    return await box.call(pending, bare_context("test_toolbox", user=who.user))


async def error_of(name: str, arguments: Any = "{}", *, box: Toolbox = BOX) -> dict[str, Any]:
    outcome = await call(name, arguments, box=box)
    result: dict[str, Any] = json.loads(outcome.content)
    assert is_error(outcome)
    assert result["error"] is True
    return result


def test_the_signature_is_the_schema_and_the_docstring_the_description() -> None:
    function = add.schema["function"]

    assert function["name"] == "test_toolbox__add"
    assert function["description"] == "Add two lengths.\n\nThe second is 1 when it is left out."
    assert function["parameters"] == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "integer", "minimum": 0, "default": 1},
            "unit": {"type": "string", "enum": ["m", "km"], "default": "m"},
        },
    }


def test_an_argument_may_be_called_title() -> None:
    @tool(requires=Permission.GUEST)
    async def name(context: ToolContext, title: str) -> str:
        """Give something a title."""
        return title

    assert name.schema["function"]["parameters"]["properties"] == {"title": {"type": "string"}}


def test_a_tool_is_an_async_function() -> None:
    def roll(context: ToolContext) -> str:
        return "6"

    with pytest.raises(TypeError, match="roll: a tool is an async function"):
        tool(requires=Permission.GUEST)(roll)  # type: ignore[arg-type]  # that is what is refused


@pytest.mark.parametrize(
    "name", ["test_toolbox__add", "test_toolbox.add", "add", "local__add", "local__test_toolbox__add"]
)
async def test_a_tool_is_found_by_either_full_name_and_by_a_bare_one_that_is_unique(name: str) -> None:
    outcome = await call(name, {"a": 2, "unit": "km"})

    assert not is_error(outcome)
    assert json.loads(outcome.content) == {"sum": 3, "unit": "km", "who": "Ann"}


@pytest.mark.parametrize("name", ["add", "local__add"])
async def test_a_bare_name_that_two_modules_have_is_answered_with_both_full_names(name: str) -> None:
    twin = Tool(add.run, Permission.GUEST, module="twin")
    box = Toolbox((ModuleTools((add, twin, refuse)),), LIMIT)

    error = await error_of(name, {"a": 1}, box=box)
    assert error["message"] == f"Several tools are called {name!r}; call one of them by its full name."
    assert error["available_tools"] == ["test_toolbox__add", "twin__add"]
    assert not is_error(await call("twin.add", {"a": 1}, box=box))


async def test_an_unknown_tool_names_those_that_there_are_for_this_person() -> None:
    result = await error_of("test_toolbox__sing")

    assert result["message"] == "There is no tool 'test_toolbox__sing' here."
    assert "test_toolbox__add" in result["available_tools"]
    assert "test_toolbox__restart" not in result["available_tools"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"a": 1, "c": 2}, "c: Extra inputs are not permitted"),
        ({}, "a: Field required"),
        ({"a": "many"}, "a: Input should be a valid integer, unable to parse string as an integer"),
        ({"a": 1, "b": -1}, "b: Input should be greater than or equal to 0"),
        ({"a": 1, "unit": "mile"}, "unit: Input should be 'm' or 'km'"),
        ({"a": None}, "a: Input should be a valid integer"),
        ({"context": {}, "a": 1}, "context: Extra inputs are not permitted"),
    ],
)
async def test_wrong_arguments_are_told_with_the_schema_that_would_be_right(
    arguments: dict[str, Any], problem: str
) -> None:
    result = await error_of("test_toolbox__add", arguments)

    assert result["problems"] == [problem]
    assert result["parameters"] == add.schema["function"]["parameters"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"a": 1', "The arguments are not valid JSON."),
        ("a=1", "The arguments are not valid JSON."),
        ("[1, 2]", "The arguments must be a JSON object, nested at most 32 deep."),
        ("7", "The arguments must be a JSON object, nested at most 32 deep."),
        ("null", "The arguments must be a JSON object, nested at most 32 deep."),
        ('{"a": ' + "[" * 1000 + "]" * 1000 + "}", "The arguments must be a JSON object, nested at most 32 deep."),
        ('{"a": ' + "[" * 100_000, "The arguments must be a JSON object, nested at most 32 deep."),
        (json.dumps({"a": "x" * 2_000_000}), "The arguments are larger than 1,000,000 characters."),
    ],
    ids=["cut", "no JSON", "array", "number", "null", "1,000 deep", "100,000 deep", "2 MB"],
)
async def test_garbled_deep_and_huge_arguments_come_back_as_an_error(arguments: str, message: str) -> None:
    assert (await error_of("test_toolbox__add", arguments))["message"] == message


async def test_no_arguments_at_all_are_an_empty_object() -> None:
    assert not is_error(await call("test_toolbox__odd", ""))


async def test_permission_and_modules_decide_the_offer_and_again_each_call() -> None:
    guest, admin = scope(), scope(Permission.ADMIN)
    elsewhere = scope(Permission.ADMIN, frozenset({"another"}))

    assert {tool.name for tool in BOX.tools} - {tool.name for tool in BOX.offered_to(guest).tools} == {
        "test_toolbox.restart"
    }
    assert BOX.offered_to(admin).tools == BOX.tools
    assert BOX.offered_to(elsewhere).tools == ()
    assert [find_objection(caller, restart) for caller in (guest, admin, elsewhere)] == [
        "needs the permission admin",
        None,
        "the persona does not allow the module",
    ]

    # The offer was made when the person was an admin still.
    for asker in (guest, elsewhere):
        pending_call = PendingCall("call-1", "test_toolbox__restart", {}, asker, BOX.offered_to(admin))
        outcome = await BOX.call(pending_call, bare_context("test_toolbox", user=asker.user))
        assert is_error(outcome)
        assert "There is no tool" in outcome.content
    assert (await call("restart", asker=admin)).content == '"restarted"'


def test_the_offer_is_the_same_object_for_the_same_rights_in_the_order_of_names() -> None:
    assert BOX.offered_to(scope()) is BOX.offered_to(scope())
    names = [schema["function"]["name"] for schema in BOX.offered_to(scope(Permission.OWNER)).schemas]
    assert names == sorted(names)


@pytest.mark.parametrize("mark", ["x", '"', "\n", "ü"])
async def test_a_long_result_is_cut_and_stays_valid_json_within_the_limit(mark: str) -> None:
    outcome = await call("test_toolbox__flood", {"size": 1000, "mark": mark})

    assert not is_error(outcome)
    assert len(outcome.content) <= LIMIT
    result = json.loads(outcome.content)
    assert result["cut"] is True
    assert result["total_chars"] > 10_000
    assert result["beginning"].startswith('["')
    assert len(outcome.content) > LIMIT // 2


async def test_what_json_has_no_word_for_is_said_in_json() -> None:
    outcome = await call("test_toolbox__odd")

    assert json.loads(outcome.content) == {
        "nan": "nan", "nul": "ab", "half": "\ufffd", "set": [1], "2": "x", "bytes": "abc",
    }  # fmt: skip


async def test_what_a_tool_refuses_is_told_word_for_word() -> None:
    assert (await error_of("test_toolbox__refuse"))["message"] == "There is no river with that id."


async def test_a_bug_in_a_tool_is_one_fixed_sentence() -> None:
    runs = Runs()
    box = Toolbox((ModuleTools([failing(runs, RuntimeError("secret"), repeatable=False)]),), LIMIT)

    assert await error_of("fail", box=box) == {"error": True, "message": "test_toolbox.fail failed unexpectedly."}
    assert runs.count == 1


async def test_a_tool_that_is_safe_to_repeat_is_tried_a_second_time() -> None:
    runs = Runs()
    box = Toolbox((ModuleTools([failing(runs, RuntimeError("secret"), repeatable=True, heals=True)]),), LIMIT)

    assert (await call("fail", box=box)).content == '"well again"'
    assert runs.count == 2


@pytest.mark.parametrize(
    ("error", "tries", "message"),
    [
        (RuntimeError("secret"), 2, "test_toolbox.fail failed unexpectedly."),
        (Unavailable("The library is closed."), 2, "The library is closed."),
        (ToolError("No such book."), 1, "No such book."),
    ],
)
async def test_a_tool_is_tried_twice_at_most_and_a_refusal_is_final(error: Exception, tries: int, message: str) -> None:
    runs = Runs()
    box = Toolbox((ModuleTools([failing(runs, error, repeatable=True)]),), LIMIT)

    assert (await error_of("fail", box=box))["message"] == message
    assert runs.count == tries


async def test_a_tool_that_takes_too_long_is_given_up() -> None:
    assert (await error_of("test_toolbox__wait"))["message"] == "test_toolbox.wait took longer than 0 seconds."


async def test_a_cancellation_that_comes_out_of_a_tool_itself_is_an_error_like_others() -> None:
    runs = Runs()
    box = Toolbox((ModuleTools([failing(runs, asyncio.CancelledError(), repeatable=False)]),), LIMIT)

    assert (await error_of("fail", box=box))["message"] == "test_toolbox.fail was interrupted."


async def test_a_cancelled_turn_cancels_its_tool() -> None:
    running = asyncio.create_task(call("wait_for_ever"))
    await BEGUN.wait()

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("name", ["a.b", "größe", "x" * 200, "", "rm -rf /", "\x00"])
def test_whatever_name_a_model_makes_up_goes_back_in_characters_that_providers_take(name: str) -> None:
    assert WIRE_NAME.fullmatch(to_wire_name(name))
