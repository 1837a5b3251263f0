"""`GET /docs`: the description of the API as a page, without scripts and without anything from other sites."""

import re
from functools import cache
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from adapters.web.api.openapi import build_document
from adapters.web.notes import HEADERS

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parley: the API</title><link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/style.css">
</head><body class="reference"><main><h1>The API of Parley</h1><p>{description}</p>
<p>For programs: <a href="/openapi.json">/openapi.json</a>, OpenAPI 3.1.</p>
<nav aria-label="Operations"><ul>{links}</ul></nav>{operations}<h2>Types</h2>{types}</main></body></html>"""
OPERATION = """<section id="{id}"><h2><code>{method} {path}</code></h2><p>{summary}</p>{access}{parameters}{body}
<h3>Answers</h3><table><thead><tr><th>Status</th><th>Meaning</th><th>Type</th></tr></thead>
<tbody>{answers}</tbody></table></section>"""
FIELDS = """<table><thead><tr><th>Name</th><th>Type</th><th>Meaning</th></tr></thead><tbody>{rows}</tbody></table>"""
TYPE = '<section id="type-{name}"><h3><code>{name}</code></h3><p>{meaning}</p>{fields}</section>'
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "maxLength": "up to {} characters",
    "maxItems": "up to {} of them",
    "maxProperties": "up to {} of them",
}


async def get_reference(_request: Request) -> Response:
    """Show the page."""
    return HTMLResponse(render_whole(), headers=HEADERS)


@cache
def render_whole() -> str:
    """Return the page of this API, which never changes while a process runs."""
    return render_page(build_document())


def render_page(document: dict[str, Any]) -> str:
    """Return the page of a description."""
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    links = "".join(
        f'<li><a href="#{operation["operationId"]}"><code>{method} {escape(path)}</code></a></li>'
        for method, path, operation in operations
    )
    return PAGE.format(
        description=escape(document["info"]["description"]),
        links=links,
        operations="".join(render_operation(method, path, operation) for method, path, operation in operations),
        types="".join(render_type(name, schema) for name, schema in document["components"]["schemas"].items()),
    )


def render_operation(method: str, path: str, operation: dict[str, Any]) -> str:
    """Return the section of one operation."""
    rows = [
        render_row(f"{parameter['name']} ({parameter['in']})", parameter["schema"], parameter["description"])
        for parameter in operation["parameters"]
    ]
    content = operation.get("requestBody", {}).get("content", {})
    answers = [
        f"<tr><td>{status}</td><td>{escape(answer['description'])}</td><td>{render_content(answer['content'])}</td></tr>"
        for status, answer in operation["responses"].items()
    ]
    return OPERATION.format(
        id=operation["operationId"],
        method=method,
        path=escape(path),
        summary=escape(operation["summary"]),
        access="<p>It needs no token.</p>" if "security" in operation else "",
        parameters=FIELDS.format(rows="".join(rows)) if rows else "",
        body=f"<p>The body: {render_content(content)}</p>" if content else "",
        answers="".join(answers),
    )


def render_content(content: dict[str, Any]) -> str:
    """Return the types of a body or an answer."""
    lines = []
    for media_type, entry in content.items():
        schema = entry.get("schema", {})
        events = [event["properties"] for event in schema.get("oneOf", [schema]) if "properties" in event]
        parts = [(event["event"].get("const", ""), event["data"]["contentSchema"]) for event in events]
        names = ", ".join(f"{name}: {render_schema(part)}" if name else render_schema(part) for name, part in parts)
        lines.append(f"<code>{escape(media_type)}</code> {names or render_schema(schema)}")
    return "<br>".join(lines)


def render_type(name: str, schema: dict[str, Any]) -> str:
    """Return the section of one type."""
    required = schema.get("required", ())
    rows = [
        render_row(
            field if field in required else f"{field} (optional)", field_schema, field_schema.get("description", "")
        )
        for field, field_schema in schema.get("properties", {}).items()
    ]
    fields = FIELDS.format(rows="".join(rows)) if rows else f"<p>{render_schema(schema)}</p>"
    return TYPE.format(name=escape(name), meaning=escape(schema.get("description", "")), fields=fields)


def render_row(name: str, schema: dict[str, Any], meaning: str) -> str:
    """Return the row of one field."""
    return f"<tr><td><code>{escape(name)}</code></td><td>{render_schema(schema)}</td><td>{escape(meaning)}</td></tr>"


def render_schema(schema: dict[str, Any]) -> str:
    """Return a type in words, with links to the types that it names."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#type-{name}"><code>{name}</code></a>'
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(render_schema(part) for part in schema[word]))
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in values)
    limits = [words.format(f"{schema[limit]:,}") for limit, words in LIMITS.items() if limit in schema]
    ending = f" ({', '.join(limits)})" if limits else ""
    if schema.get("type") == "array":
        return f"list of {render_schema(schema.get('items', {}))}{ending}"
    inner = schema.get("additionalProperties")
    if schema.get("type") == "object" and isinstance(inner, dict):
        return f"object of {render_schema(inner)}{ending}"
    return escape(re.sub(r"^null$", "nothing", schema.get("type", "anything"))) + ending
