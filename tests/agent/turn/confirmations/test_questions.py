"""What a person hears of the calls that they have answered, when no model comes to say it."""

import json
from typing import Any

from agent.journal.steps import Step, ToolUse
from agent.turn.confirmations.questions import describe_decision, list_calls


def call(number: int, tool: str, *, approved: bool | None = None) -> Step:
    confirmation = None if approved is None else {"id": 1, "approved": approved, "number": number}
    return Step(number, "tool_call", "{}", tool=ToolUse(f"call-{number}", tool, confirmation=confirmation))


def result(number: int, outcome: Any, **value: Any) -> Step:
    return Step(number + 10, "tool_result", json.dumps(value), tool=ToolUse(f"call-{number}", outcome=outcome))


def test_each_answered_call_is_told_by_its_outcome() -> None:
    steps = [
        Step(0, "user", "yes"),
        call(1, "office.send", approved=True),
        call(2, "office.post", approved=True),
        call(3, "office.delete", approved=True),
        call(4, "office.pay", approved=False),
        call(5, "office.look_up"),
        call(6, "office.wait", approved=True),
        result(1, "result", sent=True),
        result(2, "failed", message="The wall is full."),
        result(3, "not_run", message="You may not delete it now."),
        result(4, "not_run", message="The person said no."),
        result(5, "result"),
    ]

    assert describe_decision(steps).splitlines() == [
        "I have done it: `office.send`.",
        "I tried it, and `office.post` said: The wall is full.",
        "I tried it, and `office.delete` said: You may not delete it now.",
        "I have left it: `office.pay`.",
    ]
    assert describe_decision(steps[:1]) == ""


def test_a_question_about_several_calls_keeps_their_arguments_as_they_are_shown() -> None:
    calls = [{"tool": name, "arguments": {"to": "Jörg"}, "question": None} for name in ("office.send", "office.post")]

    listed = list_calls("several", json.dumps(calls), "?")

    assert [(held.tool, held.arguments) for held in listed] == [
        ("office.send", '{"to": "Jörg"}'),
        ("office.post", '{"to": "Jörg"}'),
    ]
