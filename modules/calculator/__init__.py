"""Exact arithmetic."""

from shared.arithmetic import FUNCTIONS, NoSum, work_out
from shared.errors import ToolError
from shared.permissions import Permission
from shared.tools import ToolContext, tool


@tool(requires=Permission.GUEST, read_only=True, repeatable=True)
async def calculate(context: ToolContext, expression: str) -> dict[str, str]:
    """Work out e.g. 20% of (3+4)^2."""
    try:
        return {"expression": expression, "result": work_out(expression)}
    except NoSum as reason:
        raise ToolError(
            f"I can't work that out: {reason}.", operators="+ - * / // % ^ ! of ( )", functions=list(FUNCTIONS)
        ) from None
