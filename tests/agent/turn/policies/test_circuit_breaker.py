"""Which failures of a turn count as the same, and what resets their count."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent.journal.steps import OutcomeKind, Step, ToolUse
from agent.turn.policies.calls import check_circuit
from shared.errors import ToolKeepsFailing
from tests.agent.turn.policies.calls import answer

Call = tuple[str, dict[str, Any], str | None]
MISSING = "There is no such thing."


NOT_RUN = "not run"


def journal(*waves: Sequence[Call], **fields: Any) -> list[Step]:
    """Return the journal of waves of calls, each with the message of its error, None for a success, `NOT_RUN`."""
    steps: list[Step] = []
    for wave in waves:
        first = len(steps)
        steps.append(answer(first))
        ids = [f"call_{first}_{index}" for index in range(len(wave))]
        for call_id, (name, arguments, _) in zip(ids, wave, strict=True):
            steps.append(Step(len(steps), "tool_call", json.dumps(arguments), tool=ToolUse(call_id, name)))
        for call_id, (name, _, error) in zip(ids, wave, strict=True):
            kind: OutcomeKind = "result" if error is None else "not_run" if error == NOT_RUN else "failed"
            content = {"found": 1} if error is None else {"error": True, "message": error, **fields}
            steps.append(
                Step(len(steps), "tool_result", json.dumps(content), tool=ToolUse(call_id, name, outcome=kind))
            )
    return steps


def failed(error: str = MISSING, tool: str = "shop.find", **arguments: Any) -> Call:
    return tool, arguments, error


def worked(tool: str, **arguments: Any) -> Call:
    return tool, arguments, None


def is_stopped(*waves: Sequence[Call], **fields: Any) -> bool:
    try:
        check_circuit(journal(*waves, **fields))
    except ToolKeepsFailing:
        return True
    return False


def test_the_same_error_about_the_same_arguments_three_times_ends_the_turn() -> None:
    with pytest.raises(ToolKeepsFailing, match=r"shop\.find failed three times .* There is no such thing"):
        check_circuit(journal(*[[failed(name="pen")]] * 3))
    assert not is_stopped(*[[failed(name="pen")]] * 2)


def test_the_person_is_told_the_error_with_one_full_stop_and_without_what_is_too_long() -> None:
    with pytest.raises(ToolKeepsFailing, match=r"[^.]There is no such thing\.( |$)"):
        check_circuit(journal(*[[failed(name="pen")]] * 3))
    with pytest.raises(ToolKeepsFailing) as long:
        check_circuit(journal(*[[failed("no " * 1000)]] * 3))
    assert len(str(long.value)) < 500


def test_a_call_that_was_not_run_says_nothing_about_its_tool() -> None:
    skipped = [failed(NOT_RUN, name="pen")]

    assert is_stopped([failed(name="pen")], [failed(name="pen")], skipped, [failed(name="pen")])
    assert not is_stopped(*[skipped] * 3)


def test_three_different_unknown_names_are_three_different_tries() -> None:
    assert not is_stopped([failed(name="pen")], [failed(name="ink")], [failed(name="cup")])
    assert not is_stopped(*[[failed(f"There is no {name!r}.", name=name)] for name in ("pen", "ink", "cup")])
    assert not is_stopped(*[[failed(f"There is no file {file_id}.", file_id=file_id)] for file_id in (1, 2, 3)])


def test_another_case_and_other_spaces_are_no_other_try() -> None:
    assert is_stopped([failed(name="pen")], [failed(name="Pen")], [failed(name=" pen ")])


def test_arguments_that_the_error_is_not_about_do_not_matter() -> None:
    waves = [[failed("There is no shop 'moon'.", shop="moon", limit=limit)] for limit in (5, 10, 20)]

    assert is_stopped(*waves)


def test_what_the_error_is_about_is_found_by_whole_numbers_and_by_words_of_two_letters_on() -> None:
    about = {"There is no shop 'moon'.": "moon", "There is no shop 'tv'.": "tv", "There is no shop 17.": 17}

    for error, shop in about.items():
        assert is_stopped(*[[failed(error, shop=shop, note=note)] for note in ("for Ann", "for Ben", "for Cay")])
        assert is_stopped(*[[failed(error, shop=shop, limit=limit)] for limit in (1, 7, 5)])
        assert is_stopped(*[[failed(error, shop=shop, size=size)] for size in ("s", "h", "o")])


def test_another_order_of_the_arguments_is_no_other_try() -> None:
    orders = [{"name": "pen", "size": "big"}, {"size": "big", "name": "pen"}, {"name": "pen", "size": "big"}]

    assert is_stopped(*[[failed(**order)] for order in orders])


def test_a_service_that_is_down_is_down_for_all_arguments() -> None:
    waves = [[failed("shop.example can't be reached.", name=name)] for name in ("pen", "ink", "cup")]

    assert is_stopped(*waves, temporary=True)
    assert not is_stopped(*waves)


def test_errors_that_differ_only_in_numbers_are_the_same() -> None:
    assert is_stopped(*[[failed(f"The shop opens in {minutes} minutes.", name="pen")] for minutes in (7, 6, 5)])


def test_a_success_of_another_tool_in_between_resets_the_count() -> None:
    other = [worked("shop.list")]

    assert not is_stopped([failed(name="pen")], [failed(name="pen")], other, [failed(name="pen")])
    assert is_stopped(other, *[[failed(name="pen")]] * 3)


def test_a_success_of_another_tool_at_the_same_time_does_not_reset_the_count() -> None:
    assert is_stopped(*[[failed(name="pen"), worked("shop.list")]] * 3)


def test_a_success_of_the_tool_itself_resets_its_count() -> None:
    assert not is_stopped([failed(name="pen")], [failed(name="pen")], [worked("shop.find")], [failed(name="pen")])
    assert not is_stopped(*[[failed(name="pen"), worked("shop.find", name="ink")]] * 3)


def test_other_failures_in_between_do_not_reset_the_count() -> None:
    assert is_stopped([failed(name="pen")], [failed(name="ink")], [failed(name="pen")], [failed(name="pen")])


def test_equal_errors_in_one_wave_count_once() -> None:
    assert not is_stopped([failed(name="pen")] * 3, [failed(name="pen")] * 3)
