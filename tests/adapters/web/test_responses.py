"""`POST /v1/responses`, spoken to with the official client."""

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response

from adapters.web.api.openai.responses import to_id
from tests.adapters.web.conftest import TOKEN, Site
from tests.standins.openai_api import Answer, Fault
from tests.standins.openai_api.script import gated_answer
from tests.support.delegating import until
from tests.support.summaries import remembered


@pytest.fixture
async def client(site: Site) -> AsyncIterator[AsyncOpenAI]:
    """The official client, pointed at Parley."""
    async with AsyncOpenAI(base_url=f"{site.url}/v1", api_key=TOKEN, max_retries=0) as client:
        yield client


async def ask(client: AsyncOpenAI, input_: Any, **options: Any) -> Response:
    response: Response = await client.responses.create(model="parley", input=input_, **options)
    return response


def prompt(site: Site) -> list[dict[str, Any]]:
    """Return the messages of the last prompt but the system's."""
    messages: list[dict[str, Any]] = site.parley.model.requests[-1].body["messages"]
    return [message for message in messages if message["role"] != "system"]


async def test_a_text_is_answered(client: AsyncOpenAI) -> None:
    response = await ask(client, "hello", user="ann", metadata={"ticket": "7"})

    assert response.output_text == "You said: hello"
    assert (response.object, response.status, response.model) == ("response", "completed", "parley")
    assert response.metadata == {"ticket": "7"}
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    assert response.usage.input_tokens_details.cached_tokens == 0


async def test_the_same_key_after_two_answers_to_nobody_is_two_turns(client: AsyncOpenAI, site: Site) -> None:
    first, second = await ask(client, "My code is 4711"), await ask(client, "My code is 1234")
    key = {"Idempotency-Key": "1"}

    after_first = await ask(client, "What is it?", previous_response_id=first.id, extra_headers=key)
    after_second = await ask(client, "What is it?", previous_response_id=second.id, extra_headers=key)
    again = await ask(client, "What is it?", previous_response_id=second.id, extra_headers=key)

    assert len({after_first.id, after_second.id, again.id}) == 2
    assert again.id == after_second.id
    assert "4711" not in str(prompt(site))


async def test_a_response_is_streamed_in_the_official_sequence(client: AsyncOpenAI, site: Site) -> None:
    site.parley.model.play([Answer("Told in many small pieces.", chunk_delay=0.06)])

    events = [event async for event in await client.responses.create(model="parley", input="hello", stream=True)]

    types = [event.type for event in events]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert list(dict.fromkeys(types)) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert len(deltas) > 1
    assert "".join(deltas) == "Told in many small pieces."
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "Told in many small pieces."
    assert last.response.usage is not None


async def test_the_client_s_own_accumulator_reads_a_stream(client: AsyncOpenAI) -> None:
    async with client.responses.stream(model="parley", input="hello", user="ann") as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_response()

    assert final.output_text == "You said: hello"
    assert (await client.responses.retrieve(final.id)).output_text == "You said: hello"


async def test_a_conversation_goes_on_from_a_previous_response(client: AsyncOpenAI, site: Site) -> None:
    first = await ask(client, "one", user="ann", instructions="Be a pirate.")
    second = await ask(client, "two", user="ann", previous_response_id=first.id)
    messages = prompt(site)

    assert second.previous_response_id == first.id
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert "one" in messages[0]["content"]
    assert await site.parley.value("SELECT count(*) FROM conversations") == 1
    assert "pirate" not in str(site.parley.model.requests[-1].body)


async def test_a_branch_has_nothing_of_what_came_later(client: AsyncOpenAI, site: Site) -> None:
    first = await ask(client, "one", user="ann")
    await ask(client, "two", user="ann", previous_response_id=first.id)
    branch = await ask(client, "three", user="ann", previous_response_id=first.id)
    messages = prompt(site)
    await ask(client, "four", user="ann", previous_response_id=branch.id)

    assert [message["content"] for message in messages[:-1]] == ["one", "You said: one"]
    assert "two" not in str(prompt(site))
    assert "three" in str(prompt(site))


async def test_nobody_goes_on_with_what_was_said_and_is_still_nobody(client: AsyncOpenAI, site: Site) -> None:
    first = await ask(client, "My code is 4711")
    await ask(client, "Well?", previous_response_id=first.id)
    await remembered(site.parley)

    assert [message["content"] for message in prompt(site)[:-1]] == ["My code is 4711", "You said: My code is 4711"]
    assert await site.parley.value("SELECT count(*) FROM memories") == 0


async def test_another_s_response_answers_like_a_missing_one(
    client: AsyncOpenAI, site: Site, subtests: pytest.Subtests
) -> None:
    mine = (await ask(client, "My code is 4711", user="ann")).id
    changed = f"{mine[:-9]}{'a' if mine[-9] != 'a' else 'b'}{mine[-8:]}"
    number = mine.partition("_")[2].partition(".")[0]
    bob = {"X-OpenWebUI-User-Id": "bob"}

    attempts: list[tuple[str, dict[str, Any]]] = [
        (mine, {"extra_headers": bob}),
        (mine, {"extra_query": {"user": "bob"}}),
        (mine, {"extra_headers": {"X-LibreChat-User-Id": ""}, "extra_query": {"user": "ann"}}),
        *((wrong, {}) for wrong in (changed, "resp_1", number, f"resp_{number}", "resp_", "x" * 300)),
    ]
    messages = set()
    for response_id, options in attempts:
        with subtests.test(response_id, **options):
            with pytest.raises(openai.NotFoundError) as excinfo:
                await client.responses.retrieve(response_id, **options)
            messages.add(str(excinfo.value))
            with pytest.raises(openai.NotFoundError):
                await client.responses.delete(response_id, **options)
    assert len(messages) == 1
    assert (await site.client.get(f"/v1/responses/{mine}?user=")).status_code == 404
    continued = set()
    previous: dict[str, Any]
    for previous in ({"user": "bob"}, {}, {"user": "ann", "extra_headers": bob}):
        with pytest.raises(openai.BadRequestError) as refusal:
            await ask(client, "What is it?", previous_response_id=mine, **previous)
        continued.add(str(refusal.value))
    with pytest.raises(openai.BadRequestError) as refusal:
        await ask(client, "What is it?", previous_response_id=changed, user="ann")
    assert continued == {str(refusal.value)}
    assert (await client.responses.retrieve(mine, extra_headers={"X-OpenWebUI-User-Id": "ann"})).id == mine


async def test_what_is_deleted_or_not_stored_can_t_be_read_or_gone_on_from(client: AsyncOpenAI, site: Site) -> None:
    deleted = await ask(client, "one", user="ann")
    await client.responses.delete(deleted.id)
    unstored = await ask(client, "two", user="ann", store=False)

    for response in (deleted, unstored):
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(response.id)
        with pytest.raises(openai.BadRequestError, match="no such response"):
            await ask(client, "three", user="ann", previous_response_id=response.id)
    assert await site.parley.value("SELECT count(*) FROM stored_responses") == 0


async def test_an_unstored_response_leaves_nothing_to_remember(client: AsyncOpenAI, site: Site) -> None:
    await ask(client, "My bank code is 9922.", user="ann", store=False)
    await ask(client, "My locker code is 4711.", user="ann")
    await remembered(site.parley)

    await ask(client, "What are my codes?", user="ann")

    assert "4711" in str(prompt(site))
    assert "9922" not in str(prompt(site))


async def test_a_response_can_be_read_while_it_is_written(client: AsyncOpenAI, site: Site) -> None:
    gate, answer = gated_answer("Done.")
    site.parley.model.play(answer)
    writing = asyncio.create_task(ask(client, "hello", user="ann"))
    await until(site.parley, "SELECT count(*) FROM stored_responses", 1)
    number = await site.parley.value("SELECT inbox_id FROM stored_responses")
    response_id = to_id(site.parley.app, number)

    unfinished = await client.responses.retrieve(response_id)
    with pytest.raises(openai.BadRequestError, match="still being written"):
        await ask(client, "And?", user="ann", previous_response_id=response_id)
    gate.set()

    assert (unfinished.status, unfinished.output) == ("in_progress", [])
    assert (await writing).id == response_id
    assert (await client.responses.retrieve(response_id)).output_text == "Done."


async def test_items_with_images_files_and_earlier_answers_arrive(client: AsyncOpenAI, site: Site) -> None:
    content = base64.b64encode(b"oolong").decode()
    earlier = await ask(client, "one", user="ann")
    items: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "one"}]},
        *[item.model_dump() for item in earlier.output],
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "look at this"},
                {"type": "input_file", "filename": "tea.txt", "file_data": f"data:text/plain;base64,{content}"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,iVBORw0KGgo="},
            ],
        },
    ]

    response = await ask(client, items, user="ann")

    assert response.output_text.startswith("You said: look at this")
    assert [message["content"] for message in prompt(site)[:-1]] == ["one", "You said: one"]
    rows = await site.parley.sql("SELECT filename, status FROM file_records ORDER BY id")
    assert [tuple(row) for row in rows] == [("tea.txt", "stored"), ("image-3.png", "stored")]


CALL = {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}
FILE: dict[str, Any] = {
    "role": "user",
    "content": [{"type": "input_file", "filename": "a.txt", "file_data": "data:,tea"}],
}
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"tools": [{"type": "web_search"}]}, "tools", "This agent brings its own tools"),
    ({"input": [CALL]}, "input.0", "This agent brings its own tools"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0", "This agent brings its own tools"),
    ({"input": []}, "input.items", "input.items: list should have at least 1 item"),
    ({"input": " "}, "input", "input: the last message of the user is empty"),
    ({"input": [{"role": "assistant", "content": "x"}]}, "input", "input: there must be"),
    ({"input": [FILE]}, "input", "input: a file needs a person"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        "input.0.content.0",
        "input.0",
    ),
    ({"background": True}, "background", "This agent can't"),
    (
        {"text": {"format": {"type": "json_object"}}},
        "text.format.type",
        "text.format.type: this agent answers with text",
    ),
    ({"metadata": {"a": "b" * 513}}, "metadata.a", "metadata.a: string should have at most 512"),
    ({"max_output_tokens": 0}, "max_output_tokens", "max_output_tokens: input should be greater"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", "There is no such response"),
    ({"previous_response_id": "resp_1", "conversation": "x"}, "conversation", "Name either"),
]


async def test_what_can_t_be_taken_is_refused_in_openai_s_error_format(
    client: AsyncOpenAI, site: Site, subtests: pytest.Subtests
) -> None:
    for change, param, reason in REFUSED:
        with subtests.test(reason):
            with pytest.raises(openai.BadRequestError) as excinfo:
                await ask(client, change.get("input", "hello"), extra_body=change)

            error: Any = excinfo.value.body
            assert error["message"].startswith(reason)
            assert (error["param"], error["type"]) == (param, "invalid_request_error")
    assert await site.parley.value("SELECT count(*) FROM inbox") == 0


async def test_the_same_key_is_one_response_also_where_it_goes_on(client: AsyncOpenAI, site: Site) -> None:
    key: Any = {"Idempotency-Key": "k1"}
    first = [await ask(client, "one", user="ann", extra_headers=key) for _ in range(2)]
    again: Any = {"user": "ann", "previous_response_id": first[0].id, "extra_headers": {"Idempotency-Key": "k2"}}
    second = [await ask(client, "two", **again) for _ in range(2)]

    assert first[0].id == first[1].id
    assert second[0].id == second[1].id
    assert await site.parley.value("SELECT count(*) FROM turns") == 2


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_exhausted_budget_is_a_429_and_is_read_as_a_failure(
    client: AsyncOpenAI, site: Site, is_streamed: bool
) -> None:
    await ask(client, "hello", user="ann")
    await site.parley.sql("UPDATE users SET tokens_used_this_month = token_budget_monthly")

    with pytest.raises(openai.RateLimitError, match="used this month's budget"):
        await ask(client, "again", user="ann", stream=is_streamed)


@pytest.mark.settings(turn_deadline_seconds=3)
async def test_no_model_is_a_503(client: AsyncOpenAI, site: Site) -> None:
    site.parley.model.play(lambda _body, _number: Fault(status=401))

    with pytest.raises(openai.InternalServerError, match="can't reach any language model"):
        await ask(client, "hello", user="ann")


async def test_a_limit_makes_a_response_incomplete(client: AsyncOpenAI, site: Site) -> None:
    await site.parley.sql(
        "INSERT INTO personas (name, system_prompt, is_default, max_iterations) VALUES ('p', 'Be.', true, 1)"
    )
    call = ("calculator__calculate", {"expression": "1+1"})
    site.parley.model.play([Answer(tool_calls=[call]), Answer("It is two.")])

    response = await ask(client, "1+1?", user="ann")

    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.output_text == "Reached maximum reasoning steps (1)\n\nIt is two."


async def test_who_is_erased_leaves_no_response(client: AsyncOpenAI, site: Site) -> None:
    response = await ask(client, "hello", user="ann")
    await site.parley.sql("DELETE FROM inbox")

    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(response.id)
    assert await site.parley.value("SELECT count(*) FROM stored_responses") == 0
