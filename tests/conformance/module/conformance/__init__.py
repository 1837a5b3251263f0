"""Tools with the names and results that MCP's conformance suite asks for."""

from pydantic import BaseModel

from shared.errors import ToolError
from shared.messages import Permission
from shared.tools import ToolContext, tool


class address(BaseModel):  # noqa: N801  # the suite asks for this name among the definitions
    """Where somebody lives."""

    street: str = ""
    city: str = ""


@tool(requires=Permission.GUEST, read_only=True)
async def test_simple_text(context: ToolContext) -> str:
    """Return a simple text."""
    return "This is a simple text response for testing."


@tool(requires=Permission.GUEST, read_only=True)
async def test_error_handling(context: ToolContext) -> str:
    """Fail, always."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(requires=Permission.GUEST, read_only=True)
async def json_schema_2020_12_tool(context: ToolContext, name: str, address: address) -> str:
    """Take arguments whose schema refers to a definition."""
    return f"{name} lives in {address.city}."
