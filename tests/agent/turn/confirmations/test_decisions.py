"""What counts as an answer, what a person is shown, and what a tool may ask."""

import json

import pytest

from agent.people.participants import ResolvedPersona
from agent.tools.approvals import request_for_taint, show_arguments
from agent.tools.calls import PendingCall
from agent.tools.modules import ModuleTools
from agent.tools.offer import Scope
from agent.tools.outcomes import Failed, NeedsApproval, Outcome
from agent.tools.toolbox import Toolbox
from agent.turn.confirmations.decisions import read_word
from shared.errors import ConfirmationNeeded
from shared.messages import Caller, Permission, Place
from shared.tools import Tool, ToolContext
from tests.support.tool_calls import bare_context

PLACE = Place("test", None, "dm", is_direct=True)


async def leave(context: ToolContext, question: str) -> str:
    """Leave, when the person wants it."""
    await context.confirm(question)
    return "left"


BOX = Toolbox((ModuleTools([Tool(leave, Permission.GUEST, module="door")]),), 2000)


def context(agreed_to: str | None = None) -> ToolContext:
    """Return the context of a tool that asks for nothing but the person's word."""
    return bare_context("door", agreed_to=agreed_to)


def pending(question: str, *, can_ask: bool = True) -> PendingCall:
    """Return a call of the tool."""
    caller = Caller(1, Permission.GUEST, "Ann")
    scope = Scope(caller, ResolvedPersona(None, "Parley", "", None, None, 1000, 10), PLACE, {}, can_ask=can_ask)
    return PendingCall("call-1", "door.leave", {"question": question}, scope, BOX.offered_to(scope))


async def call(question: str, context: ToolContext, *, can_ask: bool = True) -> Outcome:
    """Let the toolbox run the tool."""
    return await BOX.call(pending(question, can_ask=can_ask), context)


@pytest.mark.parametrize(
    ("text", "is_yes"),
    [
        *[(word, True) for word in ("yes", "YES", " Yes.\n", "y", "Y!", "yes!!")],
        *[(word, False) for word in ("no", "NO", "No.", "n", "  n ")],
        *[
            (word, None)
            for word in (
                "",
                "yes please send it",
                "ja",
                "ok",
                "yess",
                "no no",
                "?",
                "yes" * 1000,
                "\uff59es",
                "ye\u017f",
            )
        ],
    ],
)
def test_the_word_is_a_yes_or_a_no_and_nothing_else(text: str, is_yes: bool | None) -> None:
    assert read_word(text) is is_yes


def test_arguments_are_shown_so_that_nothing_in_them_looks_like_our_own_text() -> None:
    hostile = {"text": "a\n```\nShall I do nothing?", "hidden": "x\u202eevil\u200b\U000e0041", "plain": "Grüße 🙂"}

    text = show_arguments(hostile)

    assert json.loads(text) == hostile
    assert "`" not in text
    assert "\u202e" not in text
    assert "\u200b" not in text
    assert "\U000e0041" not in text
    assert "Grüße 🙂" in text
    assert len(text.splitlines()) == 5


async def test_a_yes_counts_for_the_very_question() -> None:
    assert (await call("Leave?", context(agreed_to="Leave?"))).content == '"left"'
    assert isinstance(await call("Leave for ever?", context(agreed_to="Leave?")), NeedsApproval)


def test_a_forgotten_await_lets_nothing_through() -> None:
    with pytest.raises(ConfirmationNeeded):
        _ = context().confirm("Leave?")


@pytest.mark.parametrize("question", ["", "  ", "x" * 1501])
async def test_a_question_is_neither_empty_nor_endless(question: str) -> None:
    outcome = await call(question, context())

    assert "1 to 1,500 may be" in json.loads(outcome.content)["message"]


@pytest.mark.parametrize("is_tainted", [False, True])
async def test_where_nobody_can_be_asked_the_caller_is_told_so(is_tainted: bool) -> None:
    approval = request_for_taint(pending("Leave?", can_ask=False))
    outcome = approval if is_tainted else await call("Leave?", context(), can_ask=False)

    assert isinstance(outcome, Failed)
    assert "nobody here who could be asked" in json.loads(outcome.content)["message"]


def test_in_a_tainted_turn_the_question_shows_every_argument() -> None:
    approval = request_for_taint(pending("Leave?"))

    assert isinstance(approval, NeedsApproval)
    assert approval.request.reason == "taint"
    assert '"question": "Leave?"' in approval.request.text
