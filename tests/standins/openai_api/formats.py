"""Validation of `response_format`, with the real API's messages."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.standins.openai_api.refusals import Refused

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
KEYS: Mapping[str, frozenset[str]] = {
    "text": frozenset({"type"}),
    "json_object": frozenset({"type"}),
    "json_schema": frozenset({"type", "json_schema"}),
}
SCHEMA_KEYS = frozenset({"name", "description", "schema", "strict"})
WHERE = "response_format"


def check_response_format(body: Mapping[str, Any]) -> None:
    """Raise `Refused` for an invalid response format."""
    if WHERE not in body:
        return
    response_format = body[WHERE]
    kind = response_format.get("type")
    if kind not in KEYS:
        raise Refused(f"Invalid value: '{kind}'. Supported values are: {', '.join(KEYS)}.", f"{WHERE}.type")
    _check_keys(response_format, KEYS[kind], WHERE)
    if kind == "json_object" and "json" not in json.dumps(body["messages"]).lower():
        raise Refused(
            f"'messages' must contain the word 'json' in some form, to use '{WHERE}' of type 'json_object'.", "messages"
        )
    if kind == "json_schema":
        _check_schema(response_format.get("json_schema"))


def _check_schema(json_schema: Any) -> None:
    where = f"{WHERE}.json_schema"
    if not isinstance(json_schema, dict):
        raise _missing_field(where)
    _check_keys(json_schema, SCHEMA_KEYS, where)
    for key in ("name", "schema"):
        if key not in json_schema:
            raise _missing_field(f"{where}.{key}")
    name, schema = json_schema["name"], json_schema["schema"]
    if not isinstance(name, str) or not NAME.match(name):
        raise Refused(f"Invalid '{where}.name': string does not match pattern.", f"{where}.name", "invalid_value")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise _invalid(name, "schema must be a JSON Schema of 'type: \"object\"'.")
    if json_schema.get("strict"):
        _check_strict(schema, name)


def _check_strict(schema: Mapping[str, Any], name: str) -> None:
    for part in _parts(schema):
        if part.get("type") != "object":
            continue
        if part.get("additionalProperties") is not False:
            raise _invalid(name, "'additionalProperties' is required to be supplied and to be false.")
        if set(part.get("required", ())) != set(part.get("properties", ())):
            raise _invalid(name, "'required' is required to be supplied, with every key in properties.")


def _missing_field(where: str) -> Refused:
    return Refused(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")


def _invalid(name: str, reason: str) -> Refused:
    return Refused(f"Invalid schema for {WHERE} '{name}': {reason}", WHERE)


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _parts(inner)


def _check_keys(parameters: Mapping[str, Any], keys: frozenset[str], where: str) -> None:
    for key in parameters:
        if key not in keys:
            raise Refused(f"Unknown parameter: '{where}.{key}'.", f"{where}.{key}", "unknown_parameter")
