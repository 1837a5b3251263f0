"""The tool `calculate`, called as the toolbox calls it."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.calculator import calculate
from shared.arithmetic import NoSum, work_out
from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import ToolContext


async def result_of(expression: str) -> str:
    # The tool does not use its context.
    answer: dict[str, Any] = await calculate.run(cast(ToolContext, None), expression=expression)
    return str(answer["result"])


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("0.1 + 0.2", "0.3"),
        ("1/3", "0.333333333333333"),
        ("10/4", "2.5"),
        ("6/3", "2"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("-2^2", "-4"),
        ("2^3^2", "512"),
        ("2**-1", "0.5"),
        ("17 % 5", "2"),
        ("17 mod 5", "2"),
        ("-7 // 2", "-4"),
        ("5!", "120"),
        ("1,234.5 + 1", "1235.5"),
        ("3,5 + 1", "4.5"),
        ("1 000 + 1", "1001"),
        ("$12.50 * 3", "37.5"),
        ("3 \N{MULTIPLICATION SIGN} 4 \N{DIVISION SIGN} 2", "6"),
        ("2 + 2 =", "4"),
        ("sqrt(2)^2", "2"),
        ("max(1, 2,3)", "3"),
        ("round(2.675, 2)", "2.68"),
        ("round(1234, -2)", "1200"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("log(1000) + ln(e)", "4"),
        ("sin(pi/2)", "1"),
        ("2^200", str(2**200)),
        ("-(1.0000000000000000000000000000000001)", "-1.0000000000000000000000000000000001"),
        ("10^-30", "1e-30"),
    ],
)
async def test_results_are_exact_in_decimal_numbers(expression: str, result: str) -> None:
    assert await result_of(expression) == result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("20% of 50", "10"),
        ("100 * 15%", "15"),
        ("50%", "0.5"),
        ("200 + 10%", "220"),
        ("200 - 10%", "180"),
        ("50% + 10%", "0.6"),
    ],
)
async def test_percentages_are_added_subtracted_and_multiplied_as_on_a_calculator(expression: str, result: str) -> None:
    assert await result_of(expression) == result


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1/0", "divides by zero"),
        ("1 % 0", "divides by zero"),
        ("0^-1", "too large"),
        ("9**9**9**9", "exponents go up to 1000"),
        ("9999999^999", "too large"),
        ("1e9999", "exponents go up to 1000"),
        ("exp(1e10)", "too large"),
        ("201!", "up to 200"),
        ("sqrt(-1)", "no result"),
        ("ln(0)", "too large"),
        ("(-8)^(1/3)", "no result"),
        ("", "missing"),
        ("2 +", "missing"),
        ("((1)", "missing"),
        ("2(3)", "out of place"),
        ("5 5", "out of place"),
        ("min()", "not known"),
        ("sqrt(4, 2, 2)", "another number of values"),
        ("(" * 100 + "1" + ")" * 100, "nested too deep"),
        ("-" * 100 + "1", "nested too deep"),
        ("1+" * 300 + "1", "longer than 500"),
        ("__import__('os').system('id')", "not understood"),
        ("open(1)", "'open' is not known"),
        ("().__class__", "not understood"),
    ],
)
async def test_invalid_expressions_are_refused_with_the_reason(expression: str, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        await result_of(expression)

    assert "sqrt" in caught.value.fields["functions"]


@given(st.text("0123456789.,+-*/%^!() esqrtmaxpi", max_size=60))
def test_any_text_is_evaluated_or_refused(expression: str) -> None:
    try:
        output = work_out(expression)
    except NoSum as reason:
        output = str(reason)
    assert output


def test_the_tool_is_for_guests() -> None:
    assert (calculate.name, calculate.requires) == ("calculator.calculate", Permission.GUEST)
    assert calculate.read_only
    assert calculate.repeatable
