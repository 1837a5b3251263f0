"""The stand-in for Slack behaves as Slack does towards unpatched slack_sdk and slack_bolt."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.standins.slack import Json, Limits, Person, SlackStandIn

pytestmark = pytest.mark.filterwarnings("ignore:The top-level `text` argument is missing:UserWarning")


def client_of(slack: SlackStandIn, token: str = "") -> AsyncWebClient:
    return AsyncWebClient(token or slack.bot_token, base_url=slack.api_base)


@asynccontextmanager
async def listening(slack: SlackStandIn) -> AsyncIterator[AsyncApp]:
    """Open bolt's own Socket Mode client with an app that has no listeners yet."""
    app = AsyncApp(token=slack.bot_token, client=client_of(slack))
    socket = AsyncSocketModeHandler(app, slack.app_token, web_client=client_of(slack))
    await socket.connect_async()
    try:
        await slack.socket.until()
        yield app
    finally:
        await socket.close_async()


async def test_bolt_hears_a_person_by_a_socket_and_answers() -> None:
    async with SlackStandIn() as slack, listening(slack) as app:
        ann = Person(slack, "Ann")

        @app.event("message")
        async def answer(event: Json, say: Any) -> None:
            await say(f"You said: {event['text']}")

        await ann.direct("hello")

        assert await ann.hears() == ["You said: hello"]
        assert all(each.acked_at is not None for each in slack.journal.envelopes)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"text": ""}, "no_text"),
        ({"text": "x", "colour": "red"}, "invalid_arguments"),
        ({"text": "x", "thread_ts": "1.2"}, "thread_not_found"),
        ({"text": "x", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        (
            {"text": "x", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3001}}]},
            "invalid_blocks",
        ),
        ({"text": "x", "metadata": {"event_type": "x"}}, "invalid_metadata_format"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"markdown_text": "x", "text": "x"}, "markdown_text_conflict"),
    ],
)
async def test_a_message_that_slack_would_not_take_is_refused(given: Json, error: str) -> None:
    async with SlackStandIn() as slack:
        channel = slack.world.add_channel("general")["id"]
        with pytest.raises(SlackApiError) as refused:
            await client_of(slack).chat_postMessage(channel=channel, **given)
        assert refused.value.response["error"] == error


async def test_one_call_too_many_is_a_429_that_says_how_long_to_wait() -> None:
    async with SlackStandIn(limits=Limits(factor=0.1)) as slack:
        client, channel = client_of(slack), slack.world.add_channel("general")["id"]
        await client.chat_postMessage(channel=channel, text="one")
        with pytest.raises(SlackApiError) as refused:
            await client.chat_postMessage(channel=channel, text="two")
        assert refused.value.response.status_code == 429
        assert int(refused.value.response.headers["Retry-After"]) >= 1


async def test_a_stream_grows_and_ends_as_one_message() -> None:
    async with SlackStandIn() as slack:
        ann, client = Person(slack, "Ann"), client_of(slack)
        asked = await ann.direct("hello")
        stream = await client.chat_stream(channel=ann.dm["id"], thread_ts=asked["ts"], buffer_size=1)
        await stream.append(chunks=[{"type": "task_update", "id": "1", "title": "Looking", "status": "in_progress"}])
        await stream.append(markdown_text="**Hi** ")
        assert ann.reads() == []
        await stream.stop(markdown_text="Ann", metadata={"event_type": "reply", "event_payload": {"id": "7"}})

        assert await ann.hears() == ["(in_progress) Looking\n**Hi** Ann"]
        replies = await client.conversations_replies(channel=ann.dm["id"], ts=asked["ts"], include_all_metadata=True)
        assert replies["messages"][-1]["metadata"]["event_payload"] == {"id": "7"}


async def test_an_envelope_that_is_not_acknowledged_comes_again() -> None:
    async with SlackStandIn() as slack, listening(slack) as app:
        slack.delivery.ack_seconds, slack.delivery.retry_delays, slack.socket.lose_acks = 0.3, (0.0,), 1
        heard: list[str] = []

        @app.event("message")
        async def note(body: Json) -> None:
            heard.append(body["event_id"])

        await Person(slack, "Ann").direct("hello")
        await slack.until(lambda: len(heard) == 2)
        assert heard[0] == heard[1]
        assert [each.attempt for each in slack.journal.envelopes] == [0, 1]
        await asyncio.sleep(0)
