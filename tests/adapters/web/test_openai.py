"""The OpenAI-compatible API, spoken to with the official client."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from tests.adapters.web.conftest import TOKEN, Site
from tests.standins.openai_api import Answer
from tests.support.pictures import picture, pictures_of


@pytest.fixture
async def client(site: Site) -> AsyncIterator[AsyncOpenAI]:
    """The official client, pointed at Parley."""
    async with AsyncOpenAI(base_url=f"{site.url}/v1", api_key=TOKEN, max_retries=0) as client:
        yield client


def history(*texts: str) -> list[ChatCompletionMessageParam]:
    """Return what a client sends after these texts, which person and agent wrote in turn."""
    messages: list[ChatCompletionMessageParam] = []
    for number, text in enumerate(texts):
        if number % 2:
            messages.append({"role": "assistant", "content": text})
        else:
            messages.append({"role": "user", "content": text})
    return messages


async def test_a_completion_is_answered(client: AsyncOpenAI) -> None:
    completion = await client.chat.completions.create(model="parley", messages=history("hello"), user="ann")

    assert completion.object == "chat.completion"
    assert completion.model == "parley"
    assert completion.choices[0].message.role == "assistant"
    assert completion.choices[0].message.content == "You said: hello"
    assert completion.choices[0].finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens > 0


async def test_a_completion_is_streamed_with_usage(client: AsyncOpenAI, site: Site) -> None:
    site.parley.model.play([Answer("Told in many small pieces.", chunk_delay=0.06)])

    stream = await client.chat.completions.create(
        model="parley", messages=history("hello"), stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(texts) > 1
    assert "".join(texts) == "Told in many small pieces."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_stream_without_options_has_no_usage(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(model="parley", messages=history("hello"), stream=True)
    chunks = [chunk async for chunk in stream]

    assert all(chunk.choices for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "You said: hello"


async def test_tool_calls_are_hidden_and_texts_before_and_after_stay_apart(client: AsyncOpenAI, site: Site) -> None:
    remember = ("knowledge__remember", {"content": "Ann likes oolong."})
    site.parley.model.play([Answer("Let me note that.", tool_calls=[remember]), Answer("Noted.")])

    stream = await client.chat.completions.create(
        model="parley", messages=history("I like oolong"), stream=True, user="ann"
    )

    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "Let me note that.\n\nNoted."


async def test_a_repeated_history_identifies_one_conversation(client: AsyncOpenAI, site: Site) -> None:
    first = await client.chat.completions.create(model="parley", messages=history("one"), user="ann")
    answer = first.choices[0].message.content or ""
    second = await client.chat.completions.create(model="parley", messages=history("one", answer, "two"), user="ann")

    assert second.choices[0].message.content == "You said: two"
    assert await site.parley.value("SELECT count(*) FROM conversations") == 1
    spoken = [message["role"] for message in site.parley.model.requests[-1].body["messages"]]
    assert spoken == ["system", "user", "assistant", "user"]


async def test_people_and_named_conversations_are_kept_apart(client: AsyncOpenAI, site: Site) -> None:
    for user, name in (("ann", None), ("bob", None), ("ann", "x"), ("ann", "y"), ("ann", "x")):
        metadata = {"conversation_id": name} if name else openai.omit
        await client.chat.completions.create(model="parley", messages=history("hi"), user=user, metadata=metadata)

    assert await site.parley.value("SELECT count(*) FROM conversations") == 4
    assert await site.parley.value("SELECT count(*) FROM user_platform_links WHERE platform = 'openai'") == 2


async def test_the_same_idempotency_key_is_one_turn(client: AsyncOpenAI, site: Site) -> None:
    calls = [
        client.chat.completions.create(
            model="parley", messages=history("hello"), user="ann", extra_headers={"Idempotency-Key": "k1"}
        )
        for _ in range(3)
    ]
    answers = await asyncio.gather(*calls)

    assert {answer.id for answer in answers} == {answers[0].id}
    assert await site.parley.value("SELECT count(*) FROM turns") == 1


async def test_parts_with_an_image_and_a_file_arrive(client: AsyncOpenAI, site: Site) -> None:
    content = base64.b64encode(b"oolong").decode()
    parts: Any = [
        {"type": "text", "text": "look at"},
        {"type": "text", "text": "these"},
        {"type": "file", "file": {"filename": "tea.txt", "file_data": f"data:text/plain;base64,{content}"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]
    completion = await client.chat.completions.create(
        model="parley", messages=[{"role": "user", "content": parts}], user="ann"
    )

    assert (completion.choices[0].message.content or "").startswith("You said: look at\nthese")
    rows = await site.parley.sql("SELECT filename, status FROM file_records ORDER BY id")
    assert [tuple(row) for row in rows] == [("tea.txt", "stored"), ("image-4.png", "stored")]


async def test_an_image_part_is_seen_by_the_model(client: AsyncOpenAI, site: Site) -> None:
    image = f"data:image/png;base64,{base64.b64encode(picture()).decode()}"
    parts: Any = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": image}}]

    await client.chat.completions.create(model="parley", messages=[{"role": "user", "content": parts}])

    assert [attachment.size for attachment in pictures_of(site.parley)] == [(40, 20)]


async def test_options_that_change_nothing_here_are_ignored(client: AsyncOpenAI) -> None:
    completion = await client.chat.completions.create(
        model="parley",
        messages=[{"role": "system", "content": "Be brief."}, *history("hello")],
        top_p=1,
        n=1,
        tools=[],
        response_format={"type": "text"},
        extra_body={"something_new": True},
    )

    assert completion.choices[0].message.content == "You said: hello"


TOOL: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"tools": [TOOL]}, "tools", "This agent brings its own tools"),
    ({"functions": [TOOL["function"]]}, "functions", "This agent brings its own tools"),
    ({"n": 2}, "n", "n: this agent gives one answer"),
    (
        {"response_format": {"type": "json_object"}},
        "response_format.type",
        "response_format.type: this agent answers with text",
    ),
    ({"modalities": ["text", "audio"]}, "modalities.1", "modalities.1: this agent answers with text"),
    ({"audio": {"voice": "a"}}, "audio", "This agent can't"),
    ({"web_search_options": {"a": 1}}, "web_search_options", "This agent brings its own tools"),
    ({"messages": []}, "messages", "messages: list should have at least 1 item"),
    (
        {"messages": [{"role": "assistant", "content": "x"}]},
        "messages",
        "messages: there must be",
    ),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "messages.0.role: input should be"),
    ({"messages": [{"role": "user", "content": " "}]}, "messages", "messages: the last message of the user is empty"),
    (
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "messages.0.content.parts.0",
        "messages.0",
    ),
    ({"user": 7}, "user", "user: input should be a valid string"),
]


async def test_unsupported_options_are_refused_in_openai_s_error_format(
    client: AsyncOpenAI, subtests: pytest.Subtests
) -> None:
    for change, param, reason in REFUSED:
        with subtests.test(reason):
            with pytest.raises(openai.BadRequestError) as excinfo:
                await client.chat.completions.create(
                    model="parley", messages=change.get("messages", history("hello")), extra_body=change
                )

            error: Any = excinfo.value.body
            assert error["message"].startswith(reason)
            assert error["param"] == param
            assert error["type"] == "invalid_request_error"


async def test_another_model_is_not_found(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="ask for parley"):
        await client.chat.completions.create(model="gpt-4o", messages=history("hello"))
    with pytest.raises(openai.NotFoundError, match="ask for parley"):
        await client.models.retrieve("gpt-4o")


async def test_a_wrong_key_is_refused(site: Site) -> None:
    async with AsyncOpenAI(base_url=f"{site.url}/v1", api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError):
            await stranger.chat.completions.create(model="parley", messages=history("hello"))


async def test_the_agent_is_the_one_model(client: AsyncOpenAI) -> None:
    assert [model.id for model in (await client.models.list()).data] == ["parley"]
    assert (await client.models.retrieve("parley")).owned_by == "parley"


async def test_an_answer_tells_its_id_its_time_and_what_is_left(client: AsyncOpenAI, site: Site) -> None:
    raw = await client.chat.completions.with_raw_response.create(model="parley", messages=history("hello"), user="ann")
    usage = raw.parse().usage
    number = await site.parley.value("SELECT max(id) FROM inbox")
    assert usage is not None

    assert raw.headers["x-request-id"] == f"req_{number}"
    assert raw.headers["openai-processing-ms"].isdigit()
    assert raw.headers["x-ratelimit-limit-tokens"] == "5000"
    assert raw.headers["x-ratelimit-remaining-tokens"] == str(5000 - usage.total_tokens)
    assert 0 < int(raw.headers["x-ratelimit-reset-tokens"].removesuffix("s")) <= 30 * 86400
    streamed = await client.chat.completions.with_raw_response.create(
        model="parley", messages=history("hello"), user="ann", stream=True
    )
    assert streamed.headers["x-request-id"] == f"req_{number + 1}"
    await site.parley.sql("UPDATE users SET token_budget_monthly = NULL")
    unlimited = await client.responses.with_raw_response.create(model="parley", input="hello", user="ann")
    assert unlimited.headers["x-request-id"] == f"req_{number + 2}"
    assert "x-ratelimit-limit-tokens" not in unlimited.headers


async def test_every_refusal_at_openai_s_addresses_has_its_shape(site: Site, subtests: pytest.Subtests) -> None:
    requests: list[tuple[str, str, dict[str, Any], int]] = [
        ("GET", "/v1/chat/completions", {}, 405),
        ("GET", "/v1/chat/nothing", {}, 404),
        ("GET", "/v1/models/a/b", {}, 404),
        ("GET", "/v1/responses", {}, 405),
        ("PUT", "/v1/responses/resp_1", {}, 405),
        ("GET", "/v1/responses/resp_1", {}, 404),
        ("GET", "/v1/models?a=%00", {}, 400),
        ("POST", "/v1/responses", {"content": "{}"}, 415),
        ("POST", "/v1/responses", {"json": {"input": "a", "model": "gpt"}}, 404),
        ("POST", "/v1/chat/completions", {"content": "{", "headers": {"Content-Type": "application/json"}}, 400),
        ("POST", "/v1/responses", {"json": {"input": "x" * 1_200_000}}, 413),
        ("GET", "/v1/models", {"headers": {"Authorization": "Bearer wrong"}}, 401),
    ]
    for method, path, options, status in requests:
        with subtests.test(f"{method} {path}", status=status):
            response = await site.client.request(method, path, **options)

            assert response.status_code == status
            assert {"code", "message", "type", "param"} == response.json()["error"].keys()
