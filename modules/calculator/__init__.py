"""Exact arithmetic, and units."""

import asyncio

from modules.calculator.units import convert
from shared.arithmetic import FUNCTIONS, NoSum, work_out
from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import ToolContext, tool

EXAMPLES = ("12 * (3 + 4)", "20% of 80", "5 ft in cm", "100 km/h to mph", "21 °C in °F")


@tool(
    requires=Permission.GUEST,
    read_only=True,
    repeatable=True,
    computes=True,
    words=("Calculating {expression}", "Calculated {expression}"),
)
async def calculate(context: ToolContext, expression: str) -> dict[str, str]:
    """Work out e.g. 20% of (3+4)^2, or 5 ft in cm.

    Example: {"expression": "5 ft in cm"} -> 152.4 cm
    """
    try:
        # In a thread: the first conversion loads the units.
        result = await asyncio.to_thread(convert, expression) or work_out(expression)
    except NoSum as reason:
        raise ToolError(
            f"I can't work that out: {reason}.",
            operators="+ - * / // % ^ ! of ( )",
            functions=list(FUNCTIONS),
            examples=EXAMPLES,
        ) from None
    return {"expression": expression, "result": result}
