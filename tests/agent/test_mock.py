"""`DEBUG_MOCK_RESPONSES` instead of a model."""

import json
from pathlib import Path

import pytest

from agent.router import ModelRequest, Router
from shared.clock import SystemClock
from shared.errors import ConfigurationError, ModelsUnavailable
from shared.settings import Settings
from tests.agent.asking import HELLO


async def test_a_scripted_list_replaces_every_model_position_by_position() -> None:
    script = [
        "Hello.",
        {"content": "", "tool_calls": [{"name": "dice.roll", "arguments": {"sides": 6}}]},
        {"error": "down"},
    ]
    router = Router(Settings(llm_models=("small",), debug_mock_responses=json.dumps(script)), SystemClock())
    deadline = SystemClock().monotonic() + 5
    told: list[str] = []
    first = await router.complete(ModelRequest(HELLO, (), 10, models=("x",)), deadline=deadline, on_text=told.append)
    second = await router.complete(ModelRequest(HELLO, (), 10, position=1), deadline=deadline)
    with pytest.raises(ModelsUnavailable):
        await router.complete(ModelRequest(HELLO, (), 10, position=7), deadline=deadline)

    assert (first.text, first.model, told) == ("Hello.", "mock", ["Hello."])
    assert [(call.name, call.arguments) for call in second.tool_calls] == [("dice__roll", '{"sides": 6}')]


@pytest.mark.parametrize(
    "given",
    ["[", "[]", "{}", "[3]", '[{"text": "x"}]', '[{"delay": -1}]', "/no/such/file.json", '[{"tool_calls": [{}]}]'],
)
def test_a_wrong_script_stops_the_start_with_the_variable_and_the_remedy(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^DEBUG_MOCK_RESPONSES .*(unset it|reply)"):
        Router(Settings(debug_mock_responses=given), SystemClock())


def test_a_script_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text('["From a file."]')

    assert Router(Settings(debug_mock_responses=str(path)), SystemClock()).routes() == ("mock",)


async def test_scripted_texts_hold_blocks_of_both_protocols_and_thinking() -> None:
    script = [
        '<think>Six?</think>Rolling. <tool>{"server_name":"dice","tool_name":"roll","arguments":{"sides":6}}</tool>',
        'Again.\n\n```tool_call\n{"tool": "dice.roll", "arguments": {"sides": 20}}\n```',
        {"content": '```delegate\n{"agent": "clerk", "task": "count"}\n```', "tool_calls": [{"name": "dice.roll"}]},
        'Cut. <tool>{"tool": "dice.roll"',
        "Only shown: `<tool>{}</tool>`",
    ]
    router = Router(Settings(debug_mock_responses=json.dumps(script)), SystemClock())
    deadline = SystemClock().monotonic() + 5
    told: list[str] = []
    answers = [
        await router.complete(ModelRequest(HELLO, (), 10, position=each), deadline=deadline, on_text=told.append)
        for each in range(5)
    ]

    assert [[(call.name, call.arguments) for call in each.tool_calls] for each in answers] == [
        [("dice__roll", '{"sides": 6}')],
        [("dice.roll", '{"sides": 20}')],
        [("dice__roll", "{}"), ("delegate", '{"agent": "clerk", "task": "count"}')],
        [],
        [],
    ]
    assert [each.text for each in answers] == ["Rolling.", "Again.", "", "Cut.", "Only shown: `<tool>{}</tool>`"]
    assert [each.stop for each in answers] == ["tool_use", "tool_use", "tool_use", "max_tokens", "end_turn"]
    assert "".join(told).split() == " ".join(each.text for each in answers).split()
    assert answers[0].thinking == "Six?"
