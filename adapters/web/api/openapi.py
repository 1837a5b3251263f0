"""`GET /openapi.json`: the table of operations, with the models that check requests and build answers, as OpenAPI."""

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from starlette.requests import Request
from starlette.responses import Response

from adapters.web.api.operations import EVENT_STREAM, JSON, OPERATIONS, STATUSES, Operation, Parameter
from shared import __version__

TOKENS = "The API_TOKEN, or a person's token."
COMPONENTS = "#/components/schemas/{model}"
DESCRIPTION = (
    "Programs speak for the people whom they name, and send the API_TOKEN of this Parley as a bearer token. What people"
    " may do with it is on the page http.md of the documentation."
)


class Generator(GenerateJsonSchema):
    """JSON schemas whose fields have no titles, which would repeat their names."""

    def field_title_should_be_set(self, _schema: Any) -> bool:
        """Leave titles out."""
        return False


class Schemas:
    """The schemas of all types that the operations name, which share their parts."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        inputs: dict[tuple[str, JsonSchemaMode], Any] = {}
        for operation in operations:
            if operation.body is not None:
                inputs[str(operation.body), "validation"] = operation.body
            for type_ in (operation.answer, operation.problem, *operation.stream.values()):
                if type_ is not None:
                    inputs[str(type_), "serialization"] = type_
        adapters = [(name, mode, TypeAdapter(type_)) for (name, mode), type_ in inputs.items()]
        self._by_name, definitions = TypeAdapter.json_schemas(
            adapters, ref_template=COMPONENTS, schema_generator=Generator
        )
        self.components = definitions.get("$defs", {})

    def of(self, type_: Any, mode: JsonSchemaMode = "serialization") -> dict[str, Any]:
        """Return the schema of a type."""
        return self._by_name[str(type_), mode]


def build_document() -> dict[str, Any]:
    """Return the description of the API."""
    schemas = Schemas(OPERATIONS)
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = to_entry(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Parley", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "The API_TOKEN, or a person's token."}
            },
        },
        "security": [{"bearer": []}],
    }


def to_entry(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    """Return one operation as the description has it."""
    words = [word for word in re.split(r"\W+", operation.path) if word]
    entry: dict[str, Any] = {
        "operationId": "_".join([operation.method, *words]),
        "summary": operation.summary,
        "parameters": [to_parameter(parameter) for parameter in operation.parameters],
        "responses": {"200": {"description": "The answer.", "content": to_content(operation, schemas)}},
    }
    problem = {JSON: {"schema": schemas.of(operation.problem)}}
    for status in operation.statuses:
        entry["responses"][str(status)] = {"description": STATUSES[status], "content": problem}
    if operation.body is not None:
        content = {JSON: {"schema": schemas.of(operation.body, "validation")}}
        entry["requestBody"] = {"required": True, "content": content}
    if operation.is_public:
        entry["security"] = []
    return entry


def to_parameter(parameter: Parameter) -> dict[str, Any]:
    """Return one parameter as the description has it."""
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.meaning,
        "schema": parameter.schema,
    }


def to_content(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    """Return what an operation answers with, by its media type; of a stream, what each of its events is."""
    answer = {"schema": schemas.of(operation.answer)} if operation.answer is not None else {}
    content: dict[str, Any] = {operation.media_type: answer}
    if operation.stream:
        events = [to_event(name, schemas.of(type_)) for name, type_ in operation.stream.items()]
        content[EVENT_STREAM] = {"schema": events[0] if len(events) == 1 else {"oneOf": events}}
    return content


def to_event(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a server-sent event with this name, whose `data` is JSON; without a name it may be any."""
    data = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
    properties = {"event": {"const": name} if name else {"type": "string"}, "data": data}
    return {"type": "object", "properties": properties, "required": ["data"]}


async def get_openapi(_request: Request) -> Response:
    """Send the description."""
    return Response(render(), media_type=JSON)


@cache
def render() -> bytes:
    """Return the description as JSON, which never changes while a process runs."""
    return json.dumps(build_document(), ensure_ascii=False, separators=(",", ":")).encode()
