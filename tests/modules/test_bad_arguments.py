"""Every tool of every module, called with whatever its schema admits and with much that it does not.

No exception escapes, no answer is longer than the limit, and no call takes longer than its tool may.
"""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import text

from agent.people.participants import ResolvedPersona
from agent.tools.calls import PendingCall
from agent.tools.modules import discover
from agent.tools.offer import Scope
from agent.tools.toolbox import Toolbox
from shared.db.database import Database
from shared.messages import Permission
from shared.tools import Tool, ToolContext
from tests.support.tool_context import make_tool_context

LIMIT = 8000
MODULES = discover()
TODAY = datetime.now(UTC).date()
ROOMS = (
    "INSERT INTO rooms (name) VALUES ('*'), ('0')",
    "INSERT INTO room_rates (room_id, days, price) SELECT id, '[2020-01-01,2999-01-01)', 9.99 FROM rooms",
)
ODD_NUMBERS = st.sampled_from([0, -1, 1, 2, 2**31, 2**63, -(2**63) - 1, 10**40])
ODD_TEXTS = st.sampled_from(
    ("", " ", "0", "null", "a" * 5000, "'; DROP TABLE users; --", "../../etc/passwd", "\u202e", "🎈", "${HOME}", "{}")
) | st.sampled_from(
    ("2026-12-04", "next weekend", "http://127.0.0.1/", "count", "*", "9" * 400, "1e999999", "Hanukkah", "9**9**9")
)
TEXTS = st.text(max_size=60) | ODD_TEXTS
NUMBERS = st.integers(-(2**65), 2**65) | ODD_NUMBERS
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def fitting(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return the values that a JSON schema admits, as far as its type says."""
    if "$ref" in schema:
        return fitting(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*(fitting(variant, definitions) for variant in schema["anyOf"]))
    if "properties" in schema:
        return arguments_of(schema, definitions)
    if schema.get("type") == "array":
        items = fitting(schema.get("items", {}), definitions)
        return st.lists(items, min_size=schema.get("minItems", 0), max_size=3)
    return plain(schema)


def plain(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return the values of a type that has no parts."""
    least, most = schema.get("minimum"), schema.get("maximum")
    match schema.get("type"):
        case "string" if schema.get("format") == "date":
            return st.dates().map(str) | st.integers(0, 60).map(lambda days: str(TODAY + timedelta(days=days)))
        case "string":
            return TEXTS.filter(lambda text: len(text) <= schema.get("maxLength", 10**6))
        case "integer":
            return st.integers(least, most) | st.integers(1, 5)
        case "number":
            return st.floats(least, most, allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case _:
            return JSON_VALUES


def arguments_of(schema: dict[str, Any], definitions: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return objects that have what is required, and some of the rest."""
    fields = {
        name: fitting(property_schema, definitions) for name, property_schema in schema.get("properties", {}).items()
    }
    required = {name: strategy for name, strategy in fields.items() if name in schema.get("required", ())}
    return st.fixed_dictionaries(required, optional={name: fields[name] for name in fields.keys() - required.keys()})


def calls_of(tool: Tool) -> st.SearchStrategy[dict[str, Any]]:
    """Return arguments that fit, the same with one value replaced, and any object."""
    schema = tool.schema["function"]["parameters"]
    fits = arguments_of(schema, schema.get("$defs", {}))
    names = st.sampled_from([*schema.get("properties", {}), "unknown"])
    broken = st.builds(lambda arguments, name, value: {**arguments, name: value}, fits, names, JSON_VALUES)
    return fits | broken | st.dictionaries(TEXTS, JSON_VALUES, max_size=3)


@pytest.fixture
async def context(database: Database, tmp_path: Path) -> ToolContext:
    async with database.transaction() as session:
        for line in ROOMS:
            await session.execute(text(line))
    return await make_tool_context(database, tmp_path / "files", "", Permission.OWNER)


@pytest.mark.parametrize("module", sorted({tool.module for tool in MODULES.tools.values()}))
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_no_arguments_break_a_tool(module: str, context: ToolContext, data: st.DataObject) -> None:
    scope = Scope(context.user, ResolvedPersona(None, "Parley", "", None, None, 1000, 10), context.place, {})
    box = Toolbox((MODULES,), LIMIT)
    offer = box.offered_to(scope)
    for tool in (tool for tool in MODULES.tools.values() if tool.module == module):
        arguments = data.draw(calls_of(tool), tool.name)
        call = PendingCall("call-1", tool.wire_name, arguments, scope, offer)
        async with asyncio.timeout(tool.timeout_seconds + 10):
            outcome = await box.call(call, replace(context, module=module))
        assert len(outcome.content) <= LIMIT
        assert "failed unexpectedly" not in outcome.content, tool.name
        json.loads(outcome.content)
