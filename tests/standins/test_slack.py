"""The stand-in for Slack behaves as Slack does towards unpatched slack_sdk and slack_bolt."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, ServerDisconnectedError, web
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.standins.slack import Admin, Json, Limits, Person, SlackStandIn, pings

pytestmark = pytest.mark.filterwarnings("ignore:The top-level `text` argument is missing:UserWarning")


def client_of(slack: SlackStandIn, token: str = "") -> AsyncWebClient:
    return AsyncWebClient(token or slack.bot_token, base_url=slack.api_base)


@asynccontextmanager
async def listening(slack: SlackStandIn) -> AsyncIterator[AsyncApp]:
    """Open bolt's Socket Mode client with an app without listeners."""
    app = AsyncApp(token=slack.bot_token, client=client_of(slack))
    socket = AsyncSocketModeHandler(app, slack.app_token, web_client=client_of(slack))
    await socket.connect_async()  # type: ignore[no-untyped-call]  # bolt's own
    try:
        await slack.socket.until()
        yield app
    finally:
        await socket.close_async()  # type: ignore[no-untyped-call]  # as above


@asynccontextmanager
async def serving(slack: SlackStandIn) -> AsyncIterator[AsyncApp]:
    """Open bolt's HTTP server, and let Slack deliver to it."""
    app = AsyncApp(client=client_of(slack), signing_secret=slack.signing_secret, process_before_response=True)
    runner = web.AppRunner(app.web_app(), shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    await slack.deliver_to(f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events")
    try:
        yield app
    finally:
        await runner.cleanup()


async def refusal(call: Any) -> str:
    """Return the error that a call of the API is refused with."""
    with pytest.raises(SlackApiError) as error:
        await call
    return str(error.value.response["error"])


async def test_bolt_receives_a_message_through_a_socket_and_answers() -> None:
    async with SlackStandIn() as slack, listening(slack) as app:
        ann = Person(slack, "Ann")

        @app.event("message")
        async def answer(event: Json, say: Any) -> None:
            await say(f"You said: {event['text']}")

        await ann.direct("hello")

        assert await ann.hears() == ["You said: hello"]
        assert all(envelope.acked_at is not None for envelope in slack.journal.envelopes)


@pytest.mark.parametrize(
    ("arguments", "error"),
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
async def test_a_message_that_slack_would_refuse_is_refused(arguments: Json, error: str) -> None:
    async with SlackStandIn() as slack:
        channel = slack.world.add_channel("general")["id"]
        assert await refusal(client_of(slack).chat_postMessage(channel=channel, **arguments)) == error


async def test_a_call_over_the_limit_is_a_429_with_the_time_to_wait() -> None:
    async with SlackStandIn(limits=Limits(factor=0.1)) as slack:
        client, channel = client_of(slack), slack.world.add_channel("general")["id"]
        await client.chat_postMessage(channel=channel, text="one")
        with pytest.raises(SlackApiError) as error:
            await client.chat_postMessage(channel=channel, text="two")
        assert error.value.response.status_code == 429
        assert int(error.value.response.headers["Retry-After"]) >= 1


async def test_a_stream_grows_and_ends_as_one_message() -> None:
    async with SlackStandIn() as slack:
        ann, client = Person(slack, "Ann"), client_of(slack)
        question = await ann.direct("hello")
        stream = await client.chat_stream(channel=ann.dm["id"], thread_ts=question["ts"], buffer_size=1)
        await stream.append(chunks=[{"type": "task_update", "id": "1", "title": "Looking", "status": "in_progress"}])
        await stream.append(markdown_text="**Hi** ")
        assert ann.reads() == []
        await stream.stop(markdown_text="Ann", metadata={"event_type": "reply", "event_payload": {"id": "7"}})

        assert await ann.hears() == ["(in_progress) Looking\n**Hi** Ann"]
        replies = await client.conversations_replies(channel=ann.dm["id"], ts=question["ts"], include_all_metadata=True)
        assert replies["messages"][-1]["metadata"]["event_payload"] == {"id": "7"}


async def test_an_envelope_that_is_not_acknowledged_is_sent_again() -> None:
    async with SlackStandIn() as slack, listening(slack) as app:
        slack.delivery.ack_seconds, slack.delivery.retry_delays, slack.socket.lose_acks = 0.3, (0.0,), 1
        heard: list[str] = []

        @app.event("message")
        async def note(body: Json) -> None:
            heard.append(body["event_id"])

        await Person(slack, "Ann").direct("hello")
        await slack.until(lambda: len(heard) == 2)
        assert heard[0] == heard[1]
        assert [envelope.attempt for envelope in slack.journal.envelopes] == [0, 1]


async def test_signed_deliveries_reach_bolt_and_are_retried_after_an_error() -> None:
    async with SlackStandIn() as slack, serving(slack) as app:
        slack.delivery.retry_delays = (0.0, 0.0)
        ann, general = Person(slack, "Ann"), slack.world.add_channel("general")
        heard: list[tuple[str, str]] = []

        @app.event("app_mention")
        async def answer(event: Json, request: Any, say: Any) -> None:
            heard.append((event["text"], request.headers.get("x-slack-retry-num", ["0"])[0]))
            if len(heard) < 3:
                raise RuntimeError
            await say("Hi.", thread_ts=event["ts"])

        question = await ann.mentions(general, "hello")

        assert await ann.hears(general, thread_ts=question["ts"]) == ["Hi."]
        assert heard == [(f"<@{slack.bot_user_id}> hello", number) for number in "012"]
        mentions = [
            delivery for delivery in slack.journal.deliveries if delivery.payload["event"]["type"] == "app_mention"
        ]
        await slack.until(lambda: [mention.status for mention in mentions] == [500, 500, 200])
        assert mentions[-1].reason == "http_error"


async def test_bolt_refuses_a_delivery_with_a_wrong_signature() -> None:
    async with SlackStandIn() as slack, serving(slack):
        slack.signing_secret, slack.delivery.retry_delays = "another", ()
        await Person(slack, "Ann").direct("hello")
        await slack.until(lambda: slack.journal.deliveries and slack.journal.deliveries[0].status == 401)


async def test_a_click_a_command_a_shortcut_and_a_form_reach_bolt_and_are_answered() -> None:
    async with SlackStandIn() as slack, listening(slack) as app:
        ann, general = Person(slack, "Ann"), slack.world.add_channel("general")
        button = {"type": "button", "action_id": "go", "value": "7", "text": {"type": "plain_text", "text": "Go"}}
        field = {"type": "plain_text_input", "action_id": "name"}
        view: Json = {"type": "modal", "callback_id": "form", "title": {"type": "plain_text", "text": "Who"}}
        view |= {"submit": {"type": "plain_text", "text": "Send"}}
        view["blocks"] = [{"type": "input", "label": {"type": "plain_text", "text": "Name"}, "element": field}]

        @app.command("/parley")
        async def command(ack: Any, respond: Any, client: AsyncWebClient, body: Json) -> None:
            await ack("One moment.")
            await respond("Only you see this.")
            await client.views_open(trigger_id=body["trigger_id"], view=view)

        @app.action("go")
        async def go(ack: Any, action: Json, respond: Any) -> None:
            await ack()
            await respond(f"Chosen: {action['value']}", replace_original=True)

        @app.shortcut("ask")
        async def ask(ack: Any, shortcut: Json, say: Any) -> None:
            await ack()
            await say(f"About: {shortcut['message']['text']}")

        @app.view("form")
        async def form(ack: Any, view: Json) -> None:
            values = next(iter(view["state"]["values"].values()))
            await ack(response_action="errors", errors={"b0": f"No {values['name']['value']} here"})

        interaction = await ann.slash(general, "/parley", "ask")
        assert await interaction.answered(2) == ["One moment.", "Only you see this."]
        assert {whisper["text"] for whisper in ann.whispers(general)} == {"One moment.", "Only you see this."}
        submission = await ann.submits(await interaction.view(), name="Bob")
        assert submission.response == {"response_action": "errors", "errors": {"b0": "No Bob here"}}
        await client_of(slack).chat_postMessage(
            channel=general["id"], text="Go?", blocks=[{"type": "actions", "elements": [button]}]
        )
        await ann.presses(general, await slack.until_message(general, "Go?"), "Go")
        assert await slack.until_message(general, "Chosen: 7")
        await ann.shortcut(general, await ann.posts(general, "tea"), "ask")
        assert await slack.until_message(general, "About: tea")


async def test_a_wrong_or_revoked_token_and_a_missing_scope_have_their_own_errors() -> None:
    async with SlackStandIn(scopes=["chat:write"]) as slack:
        client, channel = client_of(slack), slack.world.add_channel("general")["id"]
        assert await refusal(client_of(slack, "xoxb-wrong").auth_test()) == "invalid_auth"
        assert (await client.auth_test()).headers["x-oauth-scopes"] == "chat:write"
        with pytest.raises(SlackApiError) as error:
            await client.conversations_history(channel=channel)
        assert error.value.response.data["needed"] == "channels:history"
        olga = Admin(slack, "Olga")
        await olga.revokes_tokens()
        assert await refusal(client.auth_test()) == "token_revoked"
        assert await refusal(client.apps_connections_open(app_token="xapp-wrong")) == "invalid_auth"


async def test_the_state_of_a_channel_decides_whether_a_message_is_accepted() -> None:
    async with SlackStandIn() as slack:
        client, olga, general = client_of(slack), Admin(slack, "Olga"), slack.world.add_channel("general")
        assert await refusal(client.chat_postMessage(channel="C404", text="x")) == "channel_not_found"
        theirs = (await olga.posts(general, "mine"))["ts"]
        assert await refusal(client.chat_update(channel=general["id"], ts=theirs, text="x")) == "cant_update_message"
        assert await refusal(client.chat_update(channel=general["id"], ts="1.1", text="x")) == "message_not_found"
        await olga.kicks_bot(general)
        assert await refusal(client.chat_postMessage(channel=general["id"], text="x")) == "not_in_channel"
        await client.conversations_join(channel=general["id"])
        await olga.archives(general)
        assert await refusal(client.chat_postMessage(channel=general["id"], text="x")) == "is_archived"
        secret = slack.world.add_channel("secret", is_private=True, has_bot=False)
        assert await refusal(client.conversations_info(channel=secret["id"])) == "channel_not_found"


async def test_a_stream_in_a_channel_names_its_recipient_and_ends_once() -> None:
    async with SlackStandIn() as slack:
        ann, client, general = Person(slack, "Ann"), client_of(slack), slack.world.add_channel("general")
        where: Json = {"channel": general["id"], "thread_ts": (await ann.mentions(general, "x"))["ts"]}
        assert await refusal(client.chat_startStream(**where)) == "missing_recipient_team_id"
        whom: Json = {"recipient_user_id": ann.id, "recipient_team_id": slack.team_id}
        response = await client.chat_startStream(**where, **whom, markdown_text="a" * 12_000)
        here: Json = {"channel": general["id"], "ts": response["ts"]}
        assert await refusal(client.chat_appendStream(**here, markdown_text="b" * 12_001)) == "msg_too_long"
        assert await refusal(client.chat_update(**here, text="x")) == "streaming_state_conflict"
        wrong = [{"type": "task_update", "id": "1", "title": "x", "status": "sleeping"}]
        assert await refusal(client.chat_appendStream(**here, chunks=wrong)) == "invalid_chunks"
        await client.chat_stopStream(**here)
        assert await refusal(client.chat_appendStream(**here, markdown_text="b")) == "message_not_in_streaming_state"


async def test_files_are_uploaded_and_downloaded_only_with_a_token() -> None:
    async with SlackStandIn() as slack, ClientSession() as browser:
        ann, client, general = Person(slack, "Ann"), client_of(slack), slack.world.add_channel("general")
        await client.files_upload_v2(channel=general["id"], filename="a.txt", content="hello", initial_comment="Here")
        assert await ann.hears(general) == ["Here\n[a.txt]"]
        posted = await ann.posts(general, "look", files=[("b.png", b"bytes")])
        url = posted["files"][0]["url_private_download"]
        async with browser.get(url) as page:
            assert page.content_type == "text/html"
        async with browser.get(url, headers={"Authorization": f"Bearer {slack.bot_token}"}) as page:
            assert (page.content_type, await page.read()) == ("image/png", b"bytes")
        shares = (await client.files_info(file=posted["files"][0]["id"]))["file"]["shares"]
        assert shares["public"][general["id"]][0]["ts"] == posted["ts"]


async def test_history_is_paged_and_has_metadata_only_when_requested() -> None:
    async with SlackStandIn() as slack:
        client, general = client_of(slack), slack.world.add_channel("general")
        metadata = {"event_type": "reply", "event_payload": {"id": "7"}}
        for number in range(3):
            await client.chat_postMessage(channel=general["id"], text=str(number), metadata=metadata)
        page = await client.conversations_history(channel=general["id"], limit=2)
        assert [message["text"] for message in page["messages"]] == ["2", "1"]
        assert "metadata" not in page["messages"][0]
        cursor = page["response_metadata"]["next_cursor"]
        rest = await client.conversations_history(channel=general["id"], cursor=cursor, include_all_metadata=True)
        assert [(message["text"], message["metadata"]) for message in rest["messages"]] == [("0", metadata)]
        since = await client.conversations_history(channel=general["id"], oldest=page["messages"][1]["ts"])
        assert [message["text"] for message in since["messages"]] == ["2"]


async def test_a_response_can_be_lost_after_the_message_was_stored() -> None:
    async with SlackStandIn() as slack:
        client, general = client_of(slack), slack.world.add_channel("general")
        client.retry_handlers.clear()
        slack.fail("chat.postMessage", is_lost=True)
        slack.fail("chat.postMessage", error="internal_error")
        with pytest.raises(ServerDisconnectedError):
            await client.chat_postMessage(channel=general["id"], text="once")
        assert await refusal(client.chat_postMessage(channel=general["id"], text="never")) == "internal_error"
        assert Person(slack, "Ann").reads(general) == ["once"]


async def test_at_most_ten_sockets_share_the_events() -> None:
    async with SlackStandIn() as slack, ClientSession() as browser:
        slack.delivery.retry_delays, slack.delivery.ack_seconds = (), 0.05
        client, ann = client_of(slack), Person(slack, "Ann")
        sockets = []
        for _ in range(11):
            connection = await client.apps_connections_open(app_token=slack.app_token)
            sockets.append(await browser.ws_connect(connection["url"]))
        assert (await sockets[-1].receive_json())["reason"] == "too_many_websockets"
        assert [(await socket.receive_json())["type"] for socket in sockets[:10]] == ["hello"] * 10
        for number in range(20):
            await ann.direct(str(number))
        heard = [(await socket.receive_json())["payload"]["event"]["text"] for socket in sockets[:10] for _ in range(2)]
        assert sorted(heard, key=int) == [str(number) for number in range(20)]
        await slack.socket.ask_to_reconnect("refresh_requested")
        assert (await sockets[0].receive_json())["reason"] == "refresh_requested"


async def test_a_view_is_opened_once_and_before_its_trigger_expires() -> None:
    async with SlackStandIn() as slack:
        client, ann = client_of(slack), Person(slack, "Ann")
        view = {"type": "modal", "title": {"type": "plain_text", "text": "Hi"}, "blocks": [{"type": "divider"}]}
        trigger = slack.interactions.new_trigger(ann.id)
        await client.views_open(trigger_id=trigger, view=view)
        assert await refusal(client.views_open(trigger_id=trigger, view=view)) == "exchanged_trigger_id"
        late = slack.interactions.new_trigger(ann.id)
        slack.interactions.triggers[late]["at"] -= 4
        assert await refusal(client.views_open(trigger_id=late, view=view)) == "expired_trigger_id"
        await client.views_publish(user_id=ann.id, view={"type": "home", "blocks": [{"type": "divider"}]})
        assert ann.home is not None
        stale = client.views_publish(user_id=ann.id, view={"type": "home", "blocks": []}, hash="1")
        assert await refusal(stale) == "hash_conflict"


async def test_edits_deletions_the_panel_and_the_home_tab_send_events() -> None:
    async with SlackStandIn() as slack, listening(slack) as app:
        result: list[str] = []

        @app.event({"type": "message", "subtype": "message_changed"})
        async def changed(event: Json) -> None:
            result.append(f"changed to {event['message']['text']}")

        @app.event({"type": "message", "subtype": "message_deleted"})
        async def deleted(event: Json) -> None:
            result.append(f"deleted {event['previous_message']['text']}")

        @app.event("assistant_thread_started")
        async def started(event: Json, client: AsyncWebClient) -> None:
            thread = event["assistant_thread"]
            where = {"channel_id": thread["channel_id"], "thread_ts": thread["thread_ts"]}
            await client.assistant_threads_setSuggestedPrompts(**where, prompts=[{"title": "Hi", "message": "Hello"}])
            await client.assistant_threads_setTitle(**where, title="New")
            await client.assistant_threads_setStatus(**where, status="thinking")
            result.append(thread["context"]["channel_id"])

        @app.event("app_home_opened")
        async def opened(event: Json) -> None:
            result.append(event["tab"])

        ann, general = Person(slack, "Ann"), slack.world.add_channel("general")
        message = await ann.direct("teh")
        await ann.edits(ann.dm, message, "the")
        await ann.deletes(ann.dm, message)
        thread_ts = await ann.opens_assistant(general)
        await ann.opens_home()
        await slack.until(lambda: len(result) == 4)
        assert sorted(result) == sorted(["changed to the", "deleted the", general["id"], "home"])
        thread = slack.world.assistant_threads[ann.dm["id"], thread_ts]
        assert (thread["title"], thread["status"], thread["prompts"][0]["title"]) == ("New", "thinking", "Hi")


async def test_guests_external_people_and_groups_can_be_distinguished() -> None:
    async with SlackStandIn() as slack:
        client, general = client_of(slack), slack.world.add_channel("general")
        guest = Person(slack, "Guy", is_restricted=True)
        stranger = Person(slack, "Sam", team=slack.world.add_team("Else"))
        slack.world.share(general, stranger.team)
        message = await stranger.posts(general, "hello")
        assert message["user_team"] == stranger.team["id"] != slack.team_id
        assert (await client.users_info(user=guest.id))["user"]["is_restricted"]
        assert (await client.users_info(user=stranger.id))["user"]["is_stranger"]
        group = slack.world.add_user_group("staff", [guest.user])
        assert (await client.usergroups_users_list(usergroup=group["id"]))["users"] == [guest.id]
        assert "users" not in (await client.usergroups_list())["usergroups"][0]


async def test_the_visible_text_is_unescaped_and_mentions_are_found() -> None:
    async with SlackStandIn() as slack:
        ann, client, general = Person(slack, "Ann"), client_of(slack), slack.world.add_channel("general")
        text = f"<@{ann.id}> &lt;b&gt; <https://a.example|there> <!channel>"
        await client.chat_postMessage(channel=general["id"], text=text)
        assert ann.reads(general) == ["@ann <b> there @channel"]
        assert pings(ann.written(general)[0]) == sorted([ann.id, "channel"])
