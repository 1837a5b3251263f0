"""The description of the API, and requests that are made from it."""

import asyncio
import json
import re
from typing import Any

import httpx
import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as bounded
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from adapters.cli.compose import list_routes
from adapters.web.app import build_web
from tests.adapters.web.conftest import TOKEN, Site
from tests.standins.openai_api import Answer

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    ignored_auth,
]
# Not to be ready is an answer, too.
EXCEPT: dict[str, Any] = {"/readyz": (not_a_server_error,)}
# What browsers and the pages' own scripts call, and the second address of the agent card.
NOT_FOR_PROGRAMS = (
    "/pictures/",
    "/chat/",
    "/page/",
    "/shared/",
    "/sw.js",
    "/static/",
    "/docs",
    "/login",
    "/logout",
    "/me/",
    "/admin",
    "/.well-known/agent.json",
)
EXAMPLES = 6
REFUSALS = [400, 401, 404, 405, 413, 415]


async def test_every_address_for_programs_is_described(site: Site) -> None:
    document = (await site.client.get("/openapi.json")).json()

    described = {
        (path.replace("{path}", "{path:path}"), method.upper())
        for path, methods in document["paths"].items()
        for method in methods
    }
    served = {
        (route.path, method)
        for route in build_web(site.parley.app, list_routes()).routes
        if isinstance(route, Route) and route.path not in ("/", "/me") and not route.path.startswith(NOT_FOR_PROGRAMS)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert described == served


async def test_the_description_says_what_is_checked(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.url) as stranger:
        document = (await stranger.get("/openapi.json")).json()

    schemas, message = document["components"]["schemas"], document["paths"]["/v1/messages"]["post"]
    assert document["openapi"] == "3.1.0"
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert schemas["SentMessage"]["properties"]["content"]["maxLength"] == 100_000
    assert set(message["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    assert document["paths"]["/healthz"]["get"]["security"] == []


async def test_a_stream_has_the_events_that_are_described(site: Site) -> None:
    call = ("calculator__calculate", {"expression": "2+2"})
    site.parley.model.play([Answer("One moment.", tool_calls=[call]), Answer("It is four.", chunk_delay=0.02)])
    document = (await site.client.get("/openapi.json")).json()
    content = document["paths"]["/v1/messages"]["post"]["responses"]["200"]["content"]

    body = {"platform": "test", "platform_user_id": "ann", "platform_channel_id": "dm", "content": "2+2?"}
    stream = await site.client.post("/v1/messages", json=body, headers={"Accept": "text/event-stream"})

    events = [event["properties"] for event in content["text/event-stream"]["schema"]["oneOf"]]
    schemas = {event["event"]["const"]: event["data"]["contentSchema"] for event in events}
    frames = [frame.split("\n") for frame in stream.text.strip().split("\n\n")]
    for name, text in frames:
        schema = {**schemas[name.removeprefix("event: ")], "components": document["components"]}
        jsonschema.validate(json.loads(text.removeprefix("data: ")), schema)
    names = {name.removeprefix("event: ") for name, _ in frames}
    assert names == schemas.keys() - {"thinking", "error"}


async def test_the_description_is_a_page_that_loads_nothing_from_elsewhere(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.url) as stranger:
        page = await stranger.get("/docs")
    document = (await site.client.get("/openapi.json")).json()

    assert "default-src 'none'; script-src 'self'" in page.headers["content-security-policy"]
    addresses = set(re.findall(r"(?:src|href)=\"([^\"#]+)", page.text))
    assert addresses == {"/static/icon.svg", "/static/style.css", "/openapi.json"}
    assert "<script" not in page.text
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<h2><code>{method.upper()} {path}</code></h2>" in page.text
    targets = set(re.findall(r"href=\"#([^\"]+)", page.text))
    assert targets <= set(re.findall(r"id=\"([^\"]+)", page.text))


def without_long_texts(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "maxLength" or value <= 200}


def attack(document: dict[str, Any], url: str) -> list[str]:
    """Send requests made from the description, right and wrong ones; return the operations that were tried."""
    config = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}})
    labels = []
    for result in schemathesis.openapi.from_dict(document, config=config).get_all_operations():
        operation = result.ok()
        definition = operation.definition.raw
        is_bare = not definition["parameters"] and "requestBody" not in definition and "security" in definition
        try_out(operation, GenerationMode.POSITIVE, url)
        # Of what takes nothing, nothing can be wrong; and what is, at an address of a module, is the module's.
        if not is_bare and not operation.path.startswith("/modules/"):
            try_out(operation, GenerationMode.NEGATIVE, url)
        labels.append(operation.label)
    return labels


def try_out(operation: Any, mode: GenerationMode, url: str) -> None:
    """Send requests of one operation, and hold each answer against its description."""
    checks = [check for check in CHECKS if check not in EXCEPT.get(operation.path, ())]
    if "requestBody" in operation.definition.raw and operation.path != "/a2a":
        # Not so where a made-up field of the query changes nothing, and where JSON-RPC tells of errors in a 200.
        checks.append(negative_data_rejection)

    @bounded(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, checks=checks, timeout=20)

    send()


@pytest.mark.settings(default_guest_token_budget=1_000_000)
async def test_no_request_made_from_the_description_is_answered_otherwise(site: Site) -> None:
    text = (await site.client.get("/openapi.json")).text
    # Longer texts would only be refused for their length, and take seconds to make.
    document = json.loads(text, object_hook=without_long_texts)

    labels = await asyncio.to_thread(attack, document, site.url)

    assert len(labels) == sum(len(methods) for methods in document["paths"].values())
