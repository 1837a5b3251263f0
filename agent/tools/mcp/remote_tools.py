"""Converts tools of MCP servers to our `Tool`: names, validation of arguments by JSON schema, results as JSON."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

from jsonschema import Draft202012Validator, SchemaError, validators  # type: ignore[import-untyped]  # it ships no types
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from msgspec import field
from referencing import Registry
from referencing.exceptions import Unresolvable

from agent.tools.calls import depth
from agent.tools.mcp.connections import Listed
from shared.errors import ToolError
from shared.text import MAX_DEPTH, clean, clean_json, cut
from shared.tools import Run, Tool

MAX_DESCRIPTION_CHARS = 1024
MAX_SCHEMA_CHARS = 16_000
MAX_WIRE_NAME = 64
MAX_REFERENCES = 500
MAX_PROBLEMS = 10
NOT_TEXT = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
# Keywords whose check may take unbounded time, such as the server's regular expressions; only the server checks them.
LEFT_TO_THE_SERVER = (
    "pattern",
    "patternProperties",
    "propertyNames",
    "uniqueItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "format",
)
# Schemas with one of these keywords may allow keys that are not in `properties`.
OPENING = frozenset(
    {"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef"}
)


class RemoteTool(Tool, frozen=True, eq=False):
    """A tool on an MCP server, whose arguments are described by a JSON schema instead of a Python signature."""

    is_foreign: ClassVar[bool] = True

    input_schema: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Return the tool in the OpenAI function format."""
        parameters = _without_closing(self.input_schema)
        function = {"name": self.wire_name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    @cached_property
    def _check(self) -> "_Check":
        return _Check(self.input_schema)

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validate the arguments and return them unchanged; raises `ToolError` with the list of problems."""
        problems = self._check.list_problems(arguments)
        if problems:
            raise ToolError("The arguments are not valid.", problems=problems)
        return dict(arguments)


def to_tool(spec: Listed, run: Run, **rules: Any) -> RemoteTool:
    """Convert a listed tool to a `RemoteTool`.

    Raises `ToolError` if its schema is invalid, too large, too deep, or does not describe an object.
    """
    plain = clean_json(dict(spec.input_schema))
    if depth(plain) > MAX_DEPTH or len(json.dumps(plain)) > MAX_SCHEMA_CHARS:
        raise ToolError(f"Its schema is larger than {MAX_SCHEMA_CHARS:,} characters or too deep.")
    if plain.get("type", "object") != "object":
        raise ToolError("Its arguments are no object.")
    try:
        # Without a format checker, which would compile the server's regular expressions.
        Draft202012Validator.check_schema(plain, format_checker=None)
    except SchemaError as error:
        raise ToolError(f"Its schema is not valid: {cut(error.message, 200)}") from None
    run.__name__ = to_own_name(rules["module"], spec.name)
    run.__doc__ = to_description(spec.description) or f"{spec.name} (the server does not describe it)."
    object_schema = {
        "type": "object",
        "properties": {},
        **{key: subschema for key, subschema in plain.items() if key != "$schema"},
    }
    # Few servers forbid additional properties, but an unknown key is a mistake of the model and should be rejected.
    return RemoteTool(
        run,
        input_schema=object_schema
        if OPENING & object_schema.keys()
        else {**object_schema, "additionalProperties": False},
        **rules,
    )


def to_own_name(server: str, name: str) -> str:
    """Return the tool's name, limited to the characters and the length that all providers accept.

    The length includes the server's name. A changed name ends with a part of its hash, so that it stays unique.
    """
    length = MAX_WIRE_NAME - len(server) - 2
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if plain == name and 0 < len(plain) <= length:
        return plain
    return f"{plain[: length - 9]}_{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def to_description(text: str) -> str:
    """Return a server's description without invisible characters, cut to `MAX_DESCRIPTION_CHARS`."""
    visible = "".join(
        character for character in clean(text) if character in "\n\t" or unicodedata.category(character) not in NOT_TEXT
    )
    return cut(visible.strip(), MAX_DESCRIPTION_CHARS)


def _without_closing(schema: Any) -> Any:
    # For the model: unknown keys are refused by `check` anyway, and some providers refuse this keyword.
    if isinstance(schema, list):
        return [_without_closing(subschema) for subschema in schema]
    if not isinstance(schema, Mapping):
        return schema
    keywords = {key: value for key, value in schema.items() if key != "additionalProperties" or value is not False}
    return {key: _without_closing(value) for key, value in keywords.items()}


class _Check:
    """Validates arguments against a server's schema, in bounded time for every schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._left = 0
        keywords: Mapping[str, Any] = Draft202012Validator.VALIDATORS
        closed = keywords["additionalProperties"]
        rules = {
            **dict.fromkeys(LEFT_TO_THE_SERVER, lambda *_: ()),
            **{name: self._counted(keywords[name]) for name in ("$ref", "$dynamicRef")},
            # The check of other keys would run the patterns.
            "additionalProperties": lambda validator, value, instance, schema: (
                () if "patternProperties" in schema else closed(validator, value, instance, schema)
            ),
        }
        # An empty registry: a `$ref` is resolved only within the schema itself.
        self._validator = validators.extend(Draft202012Validator, rules)(schema, registry=Registry())

    def list_problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the validation errors of these arguments, at most `MAX_PROBLEMS`."""
        self._left = MAX_REFERENCES
        try:
            errors = list(islice(self._validator.iter_errors(arguments), MAX_PROBLEMS))
        except (RecursionError, Unresolvable):
            raise ToolError("The tool's own schema can't be checked; it is off until its server mends it.") from None
        paths = (".".join(str(part) for part in error.absolute_path) for error in errors)
        return [
            cut(f"{path}: {error.message}" if path else error.message, 300)
            for path, error in zip(paths, errors, strict=True)
        ]

    def _counted(self, rule: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        # Nested references can multiply to exponentially many checks.
        def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._left -= 1
            if self._left < 0:
                raise RecursionError
            yield from rule(validator, value, instance, schema) or ()

        return counted


def to_result(result: CallToolResult) -> Any:
    """Return a tool's result as JSON; raises `ToolError` with the server's message if the result is an error."""
    content = result.structured_content
    if content is None:
        parts = [_part(block) for block in result.content]
        is_text = all(isinstance(part, str) for part in parts)
        content = parts[0] if len(parts) == 1 else "\n".join(parts) if is_text else parts
    elif isinstance(content, dict) and content.keys() == {"result"}:
        # MCP wraps values that are not objects: `{"result": 4}`.
        content = content["result"]
    if not result.is_error:
        return content
    if isinstance(content, dict) and isinstance(content.get("message"), str):
        error = ToolError(content["message"])
        error.fields = {key: detail for key, detail in content.items() if key not in ("error", "message", "self")}
        raise error
    raise ToolError(cut(content if isinstance(content, str) else json.dumps(content), 2000) or "The tool failed.")


def _part(content: ContentBlock) -> Any:
    match content:
        case TextContent():
            return _read(content.text)
        case ImageContent() | AudioContent():
            return {"note": f"{content.mime_type}, {len(content.data) * 3 // 4:,} bytes: not shown"}
        case ResourceLink():
            return {"resource": content.uri, "name": content.name}
        case EmbeddedResource():
            resource = content.resource
            if isinstance(resource, BlobResourceContents):
                return {"note": f"{resource.mime_type}, {len(resource.blob) * 3 // 4:,} bytes: not shown"}
            return _read(resource.text)


def _read(text: str) -> Any:
    # JSON in a text part is decoded; otherwise the model would see it with all quotes escaped.
    if text[:1] in ("{", "["):
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return plain if depth(plain) <= MAX_DEPTH else text
    return text
