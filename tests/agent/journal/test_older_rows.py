"""Rows of the release before, which kept no outcomes, say the same in their JSON and in the ids of their calls."""

import json
from typing import Any

import pytest

from agent.journal.lookups import with_outcome
from agent.journal.steps import OutcomeKind, Step, ToolUse
from agent.turn.confirmations.questions import find_question

ASKED = {"confirmation_asked": {"reason": "tool", "question": "Shall I?"}, "message": "Wait."}


def result(value: Any) -> Step:
    return Step(3, "tool_result", json.dumps(value), tool=ToolUse("call_1_2", "wall.post"))


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("posted", "result"),
        ({"error": "none"}, "result"),
        ({"error": True, "message": "no"}, "failed"),
        ({"error": True, "not_run": True, "message": "no"}, "not_run"),
        (ASKED, "needs_approval"),
    ],
)
def test_a_result_says_in_its_json_what_the_call_came_to(value: Any, outcome: OutcomeKind) -> None:
    assert with_outcome(result(value)).tool.outcome == outcome


@pytest.mark.parametrize(("call_id", "approved"), [("agreed_12", True), ("denied_12", False)])
def test_a_call_says_in_its_id_which_answer_it_carries_out(call_id: str, approved: bool) -> None:
    call = Step(2, "tool_call", "{}", tool=ToolUse(call_id, "wall.post"))

    assert with_outcome(call).tool.confirmation == {"id": 12, "approved": approved}


def test_a_question_is_found_without_its_column() -> None:
    call = Step(2, "tool_call", '{"text": "a"}', tool=ToolUse("call_1_2", "wall.post"))

    question = find_question(call, with_outcome(result(ASKED)))

    assert question is not None
    assert (question.call_id, question.arguments, question.text) == ("call_1_2", '{"text": "a"}', "Shall I?")


def test_what_the_journal_says_itself_is_left_as_it_is() -> None:
    kept = Step(3, "tool_result", '{"error": true}', tool=ToolUse("call_1_2", "a.b", outcome="result"))

    assert with_outcome(kept) is kept
