"""The stand-in refuses what the real API refuses, and follows its script."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from tests.standins.openai_api import Answer, Fault, OpenAIStub, Reply

HELLO = [{"role": "user", "content": "hello"}]
ROLL = {"type": "function", "function": {"name": "dice__roll", "parameters": {"type": "object", "properties": {}}}}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "a", "type": "function", "function": {"name": "dice__roll", "arguments": "{}"}}],
}

OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OBJECT, "additionalProperties": False, "required": ["a"]}


def wants(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a response format with a schema."""
    return {"type": "json_schema", "json_schema": schema}


@pytest.fixture
async def stub() -> AsyncIterator[OpenAIStub]:
    async with OpenAIStub() as server:
        yield server


@pytest.fixture
async def client(stub: OpenAIStub) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=stub.base_url, api_key="any", max_retries=0) as openai_client:
        yield openai_client


async def post(stub: OpenAIStub, body: Any) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(f"{stub.base_url}/chat/completions", content=raw)


async def test_without_a_script_it_echoes_the_message(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(model="small", messages=[{"role": "user", "content": "hello"}])

    assert answer.choices[0].message.content == "You said: hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tools": [{**ROLL, "function": {"name": "dice.roll"}}]}, "does not match pattern"),
        ({"tools": [{**ROLL, "function": {"name": "x" * 65}}]}, "does not match pattern"),
        ({"tools": [ROLL, ROLL]}, "unique"),
        ({"tools": []}, "1 to 128"),
        ({"tools": [{"type": "magic"}]}, "function"),
        ({"tools": [{**ROLL, "function": {"name": "a", "parameters": {"type": "array"}}}]}, "object"),
        ({"tools": [{**ROLL, "function": {"name": "a", "description": "x" * 1025}}]}, "1024"),
        ({"tool_choice": "auto"}, "only allowed when 'tools'"),
        ({"tools": [ROLL], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "names no tool"),
        ({"messages": []}, "too short"),
        ({"model": ""}, "model parameter"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "robot"),
        ({"messages": [{"role": "user", "content": None}]}, "got null"),
        ({"messages": [{"role": "user", "content": 5}]}, "got int"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "video"),
        ({"messages": [{"role": "user", "content": "x", "name": "Ada Lovelace"}]}, "name"),
        ({"messages": [{"role": "user", "content": "x", "mood": "glad"}]}, "mood"),
        ({"messages": [*HELLO, {"role": "tool", "tool_call_id": "a", "content": "4"}]}, "preceding message"),
        ({"messages": [*HELLO, CALLED]}, "did not have response"),
        ({"messages": [*HELLO, CALLED, *HELLO]}, "did not have response"),
        ({"messages": [*HELLO, CALLED, {"role": "tool", "tool_call_id": "b", "content": "4"}]}, "preceding message"),
        ({"messages": [*HELLO, {"role": "assistant", "content": None}]}, "got null"),
        ({"messages": [*HELLO, {**CALLED, "tool_calls": []}]}, "too short"),
        ({"wisdom": 3}, "Unrecognized"),
        ({"stream": "yes"}, "Invalid type"),
        ({"max_tokens": True}, "Invalid type"),
        ({"max_tokens": 0}, "minimum"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "same time"),
        ({"temperature": 3}, "between 0 and 2"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
        ({"response_format": "json_object"}, "Invalid type"),
        ({"response_format": {}}, "Supported values are"),
        ({"response_format": {"type": "yaml"}}, "Supported values are"),
        ({"response_format": {"type": "json_object"}}, "must contain the word 'json'"),
        ({"response_format": {"type": "json_object", "strict": True}}, "Unknown parameter: 'response_format.strict'"),
        ({"response_format": {"type": "json_schema"}}, "Missing required parameter: 'response_format.json_schema'"),
        ({"response_format": wants({"name": "a"})}, "Missing required parameter: 'response_format.json_schema.schema'"),
        (
            {"response_format": wants({"schema": OBJECT})},
            "Missing required parameter: 'response_format.json_schema.name'",
        ),
        ({"response_format": wants({"name": "a b", "schema": OBJECT})}, "does not match pattern"),
        ({"response_format": wants({"name": "a", "schema": OBJECT, "type": "x"})}, "Unknown parameter"),
        ({"response_format": wants({"name": "a", "schema": {"type": "array"}})}, "schema must be a JSON Schema of"),
        (
            {"response_format": wants({"name": "a", "schema": OBJECT, "strict": True})},
            "'additionalProperties' is required",
        ),
        (
            {"response_format": wants({"name": "a", "schema": {**CLOSED, "required": []}, "strict": True})},
            "'required' is required",
        ),
    ],
)
async def test_what_the_real_api_refuses_is_refused(stub: OpenAIStub, change: dict[str, Any], reason: str) -> None:
    answer = await post(stub, {"model": "small", "messages": HELLO, **change})

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert reason in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert stub.refusals == [error["message"]]


@pytest.mark.parametrize(
    "response_format",
    [
        {"type": "text"},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
        {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}, "strict": False}},
    ],
)
async def test_a_valid_response_format_is_accepted(stub: OpenAIStub, response_format: dict[str, Any]) -> None:
    body = {"model": "small", "messages": HELLO, "response_format": response_format}

    assert (await post(stub, body)).status_code == 200


async def test_json_mode_requires_the_word_json_in_the_messages(stub: OpenAIStub) -> None:
    body = {"model": "small", "messages": [{"role": "user", "content": "Hello in JSON, please."}]}

    assert (await post(stub, {**body, "response_format": {"type": "json_object"}})).status_code == 200
    strict = wants({"name": "a", "schema": CLOSED, "strict": True})
    assert (await post(stub, {**body, "response_format": strict})).status_code == 200


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"model": "\xff"}', b"null"])
async def test_a_body_that_is_no_json_object_is_refused(stub: OpenAIStub, raw: bytes) -> None:
    assert (await post(stub, raw)).status_code == 400


async def test_a_complete_exchange_with_tools_is_accepted(stub: OpenAIStub) -> None:
    messages = [*HELLO, CALLED, {"role": "tool", "tool_call_id": "a", "content": "4"}, *HELLO]

    assert (await post(stub, {"model": "small", "messages": messages, "tools": [ROLL]})).status_code == 200
    assert stub.requests[0].body["messages"] == messages


async def test_a_list_is_played_in_order_before_it_echoes(stub: OpenAIStub, client: openai.AsyncOpenAI) -> None:
    stub.play(["one", Answer(tool_calls=[("dice__roll", {"sides": 6})])])
    answers = [
        await client.chat.completions.create(model="small", messages=[{"role": "user", "content": "x"}])
        for _ in range(3)
    ]

    assert answers[0].choices[0].message.content == "one"
    calls = answers[1].choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].to_dict()["function"] == {"name": "dice__roll", "arguments": '{"sides": 6}'}
    assert answers[1].choices[0].finish_reason == "tool_calls"
    assert answers[2].choices[0].message.content == "You said: x"


async def test_a_stream_carries_text_tool_calls_and_usage(stub: OpenAIStub, client: openai.AsyncOpenAI) -> None:
    stub.play([Answer("A long sentence, in parts.", [("dice__roll", {"sides": 20, "count": 100})], chunk_chars=5)])
    stream = await client.chat.completions.create(
        model="small",
        messages=[{"role": "user", "content": "x"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]

    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "A long sentence, in parts."
    parts = [call for delta in deltas for call in delta.tool_calls or []]
    assert len(parts) > 3
    assert "".join((part.function and part.function.arguments) or "" for part in parts) == '{"sides": 20, "count": 100}'
    assert chunks[-1].usage is not None
    assert chunks[-1].choices == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(429, retry_after=3), openai.RateLimitError),
        (Fault(503), openai.InternalServerError),
        (Fault(drop=True), openai.APIConnectionError),
        (Fault(malformed=True), json.JSONDecodeError),
    ],
)
async def test_faults_equal_those_of_the_real_api(
    stub: OpenAIStub, client: openai.AsyncOpenAI, fault: Fault, error: type[Exception]
) -> None:
    stub.play([fault])

    with pytest.raises(error):
        await client.chat.completions.create(model="small", messages=[{"role": "user", "content": "x"}])


async def test_a_stream_is_cut_after_the_requested_chunks(stub: OpenAIStub) -> None:
    stub.play([Fault(cut_after_chunks=2), Fault(cut_after_chunks=2, is_clean=True)])
    body = {"model": "small", "messages": HELLO, "stream": True}

    with pytest.raises(httpx.RemoteProtocolError):
        await post(stub, body)
    assert (await post(stub, body)).text.count("data: ") == 2


async def test_a_wrong_key_gets_401() -> None:
    async with (
        OpenAIStub(api_key="right") as stub,
        openai.AsyncOpenAI(base_url=stub.base_url, api_key="wrong", max_retries=0) as client,
    ):
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()


async def test_hundreds_of_concurrent_calls_are_counted() -> None:
    gate = asyncio.Event()

    async def wait(_body: dict[str, Any], number: int) -> Reply:
        await gate.wait()
        return Answer(str(number))

    async with OpenAIStub(wait) as stub:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=60, base_url=stub.base_url) as client:
            body = {"model": "small", "messages": HELLO}
            calls = [asyncio.create_task(client.post("/chat/completions", json=body)) for _ in range(300)]
            await stub.until(300)
            assert stub.running == 300
            gate.set()
            answers = await asyncio.gather(*calls)

        assert {answer.status_code for answer in answers} == {200}
        assert (stub.peak, stub.running) == (300, 0)


async def test_similar_texts_have_near_vectors(client: openai.AsyncOpenAI) -> None:
    texts = ["my cat is called Tom", "what is the cat called?", "quarterly revenue of the hotel"]
    answer = await client.embeddings.create(model="small", input=texts, dimensions=256)
    cat, question, hotel = [embedding.embedding for embedding in answer.data]

    def nearness(one: list[float], other: list[float]) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert len(cat) == 256
    assert nearness(cat, question) > nearness(cat, hotel) + 0.2
    with pytest.raises(openai.BadRequestError):
        await client.embeddings.create(model="small", input=[""])


async def test_as_a_program_it_is_scripted_over_http() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.standins.openai_api", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        base_url = (await process.stdout.readline()).decode().strip()
        script = [
            {"when": {"text": "roll", "results": 0}, "tool_calls": [{"name": "dice__roll", "arguments": {}}]},
            {"fault": {"status": 503}},
            "in turn",
        ]
        async with httpx.AsyncClient() as client:
            root = base_url.removesuffix("/v1")
            await client.post(f"{root}/_script", json=script)
            roll = {"model": "small", "messages": [{"role": "user", "content": "roll"}]}
            bodies = [roll, roll, {"model": "small", "messages": HELLO}, {"model": "small", "messages": HELLO}]
            answers = [await client.post(f"{base_url}/chat/completions", json=body) for body in bodies]
            journal = (await client.get(f"{root}/_journal")).json()
    finally:
        process.terminate()
        await process.wait()

    assert [answer.status_code for answer in answers] == [200, 200, 503, 200]
    assert all("dice__roll" in answer.text for answer in answers[:2])
    assert "in turn" in answers[3].text
    assert [request["body"] for request in journal["requests"]] == bodies


async def test_a_call_that_hangs_ends_when_the_caller_leaves(stub: OpenAIStub) -> None:
    stub.play([Fault(hang=True)])
    call = asyncio.create_task(post(stub, {"model": "small", "messages": HELLO}))
    await stub.until(1)
    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await post(stub, {"model": "small", "messages": HELLO})).status_code == 200
