"""Conversions between units by the tool `calculate`."""

from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.calculator import EXAMPLES, calculate
from modules.calculator.units import convert
from shared.arithmetic import NoSum
from shared.errors import ToolError
from shared.tools import ToolContext

NOTHING = cast(ToolContext, None)  # the tool does not use its context
LENGTHS = st.sampled_from(["m", "km", "mile", "foot", "inch", "yard", "nautical_mile", "cm"])


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("5 miles in km", "8.04672 km"),
        ("5 ft in cm?", "152.4 cm"),
        ("12 in in cm", "30.48 cm"),
        ("(1 + 2) * 2 feet to m", "1.8288 m"),
        ("180 lbs to kg", "81.6466266 kg"),
        ("0.1 kg as g", "100 g"),
        ("100 °C in °F", "212 °F"),
        ("-40 degF to celsius", "-40 celsius"),
        ("100 km/h to mph", "62.1371192237334 mph"),
        ("10 metres per second in km/h", "36 km/h"),
        ("1 square foot in cm^2", "929.0304 cm^2"),
        ("3 cubic metres to litres", "3000 litres"),
        ("2 GB in MiB", "1907.3486328125 MiB"),
        ("90 minutes in hours", "1.5 hours"),
        ("1,5 KM in m", "1500 m"),
    ],
)
async def test_an_amount_is_converted_exactly(expression: str, result: str) -> None:
    answer: dict[str, Any] = await calculate.run(NOTHING, expression=expression)
    assert answer == {"expression": expression, "result": result}


@pytest.mark.parametrize("expression", EXAMPLES)
async def test_every_example_of_the_tool_has_a_result(expression: str) -> None:
    assert (await calculate.run(NOTHING, expression=expression))["result"]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("5 km in kg", r"Cannot convert from 'kilometer' .*to 'kilogram'"),
        ("5 smoots in m", "smoots is no unit that is known"),
        ("5 m in m**99999999", "is no unit that is known"),
        ("5 m*9**9**9**9 in m", "is no unit that is known"),
        ("5 __import__('os') in m", "not understood|no unit"),
        ("1/0 km in m", "divides by zero"),
    ],
)
async def test_units_that_do_not_fit_are_named(expression: str, reason: str) -> None:
    with pytest.raises(ToolError, match=reason) as caught:
        await calculate.run(NOTHING, expression=expression)
    assert caught.value.fields["examples"] == EXAMPLES


@given(amount=st.decimals(-(10**6), 10**6, places=3), unit=LENGTHS, other=LENGTHS)
def test_there_and_back_again_is_the_same_amount(amount: Decimal, unit: str, other: str) -> None:
    there = convert(f"{amount} {unit} in {other}")
    assert there is not None
    back = convert(f"{there} in {unit}")
    assert back is not None
    assert abs(Decimal(back.split()[0]) - amount) <= abs(amount) * Decimal("1e-13") + Decimal("1e-12")


@given(
    text=st.text(max_size=60) | st.builds("{} {} in {}".format, st.integers(), st.text(max_size=9), st.text(max_size=9))
)
def test_no_text_breaks_the_conversion(text: str) -> None:
    try:
        answer = convert(text)
    except NoSum:
        return
    assert answer is None or len(answer) < 200
