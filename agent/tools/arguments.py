"""The arguments of a tool call: parsing the text a model wrote, checking it, and showing it to the model later."""

import json
from math import isfinite
from typing import Any

from shared.errors import ToolError
from shared.text import MAX_DEPTH, clean, clean_json
from shared.tools import GARBLED, Tool

MAX_ARGUMENT_CHARS = 1_000_000
PROBLEM = "problem"
GARBLED_CHARS = 2000
SHOWN_CHARS = 32_000
NO_JSON = "The arguments are not valid JSON."
NO_OBJECT = f"The arguments must be a JSON object, nested at most {MAX_DEPTH} deep."
TOO_LARGE = f"The arguments are larger than {MAX_ARGUMENT_CHARS:,} characters."


def parse_arguments(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Check the arguments against the tool's schema; raises `ToolError` with the schema in its fields."""
    if GARBLED in arguments:
        raise _wrong(tool, str(arguments.get(PROBLEM, NO_JSON)))
    try:
        return tool.check(arguments)
    except ToolError as error:
        raise _wrong(tool, str(error), **error.fields) from None


def read_arguments(text: str) -> dict[str, Any]:
    """Parse and clean the arguments that a model wrote, in the form the journal stores.

    Text that is not a valid JSON object becomes an object that holds the text and a description of the problem.
    """
    problem = TOO_LARGE
    if len(text) <= MAX_ARGUMENT_CHARS:
        problem = NO_OBJECT
        try:
            plain = DECODER.decode(clean(text).strip() or "{}")
            if isinstance(plain, dict) and depth(plain) <= MAX_DEPTH:
                arguments: dict[str, Any] = clean_json(plain)
                return arguments
        except ValueError:
            problem = NO_JSON
        except RecursionError:
            # It is nested too deep to be read.
            pass
    return {GARBLED: clean(text[:GARBLED_CHARS]), PROBLEM: problem}


def _finite(text: str) -> float:
    # JSON in Postgres cannot hold infinity or NaN, however they are written.
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def to_shown_arguments(content: str) -> str:
    """Return journaled arguments for the prompt; those over `SHOWN_CHARS` characters are cut to their beginning."""
    if len(content) <= SHOWN_CHARS:
        return content
    return json.dumps({"cut": True, "total_chars": len(content), "beginning": content[:GARBLED_CHARS]})


def depth(value: Any) -> int:
    """Return the nesting depth of a JSON value; does not recurse, so that deep values cannot overflow the stack."""
    deepest = 0
    level = [value]
    while level:
        deepest += 1
        collections = (node for node in level if isinstance(node, dict | list))
        level = [inner for node in collections for inner in (node.values() if isinstance(node, dict) else node)]
    return deepest


def _wrong(tool: Tool, message: str, **fields: Any) -> ToolError:
    error = ToolError(message)
    error.fields = {**fields, "parameters": tool.schema["function"]["parameters"]}
    return error
