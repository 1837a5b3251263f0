"""Conditions of polling jobs."""

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.errors import ToolError
from shared.schedules.conditions import Comparison, Condition, check_condition

RESULT = {"status": 200, "items": [{"price": "19.90", "name": "Bike"}], "open": True, "note": None}


@pytest.mark.parametrize(
    ("path", "comparison", "value", "is_true"),
    [
        ("status", "equals", "200", True),
        ("items.0.price", "below", 20, True),
        ("items.0.price", "above", "19.9", False),
        ("items.0.name", "contains", "bik", True),
        ("items", "contains", "Bike", True),
        ("", "contains", "bike", True),
        ("open", "equals", True, True),
        ("open", "equals", "true", True),
        ("items.1", "exists", None, False),
        ("items.1", "missing", None, True),
        ("items.1.name", "differs", "Bike", False),
        ("items.0.name", "lacks", "boat", True),
        ("items.name", "lacks", "boat", False),
        ("note", "exists", None, True),
        ("note", "above", 1, False),
    ],
)
def test_a_condition_is_true_of_a_result(path: str, comparison: Comparison, value: Any, is_true: bool) -> None:
    assert Condition(path, comparison, value).holds(RESULT) is is_true


@pytest.mark.parametrize("condition", [("", "above", "many"), ("", "contains", ""), ("x" * 201, "exists", None)])
def test_a_condition_that_can_never_be_true_is_refused(condition: Any) -> None:
    with pytest.raises(ToolError):
        check_condition(Condition(*condition))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab01.", max_size=2), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150)
@given(
    json_values,
    st.text("ab01.", max_size=6),
    st.sampled_from(get_args(Comparison)),
    st.text(max_size=3) | st.floats() | st.booleans() | st.none(),
)
def test_any_condition_of_any_result_is_true_or_false(result: Any, path: str, comparison: Any, value: Any) -> None:
    condition = Condition(path, comparison, value)

    assert condition.holds(result) in {True, False}
    assert Condition.from_row(condition.to_row()) == condition or value != value  # noqa: PLR0124  # not a number
