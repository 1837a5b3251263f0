"""How events come in: by sockets that are refreshed and cut, by signed requests; each is taken once."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import httpx
import pytest
from pydantic import SecretStr

from adapters.slack.platform import SlackPlatform
from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.adapters.web.conftest import open_site
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import gated_answer
from tests.standins.slack import Envelope
from tests.standins.slack.delivery import sign
from tests.support.chat_scene import ended
from tests.support.parley import open_parley

COUNT = "SELECT count(*) FROM inbox"


@asynccontextmanager
async def open_over_http(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[str]:
    """Open Parley with its web adapter instead of a socket; give the address for events."""
    settings = scene.settings.model_copy(update={"port": 0})
    secret = SecretStr(scene.slack.signing_secret)
    platform = SlackPlatform(replace(scene.own, app_token=None, signing_secret=secret))
    async with (
        open_parley(settings, address, model, senders={"slack": platform}) as parley,
        open_site(parley) as site,
    ):
        scene.parley = parley
        yield f"{site.url}/slack/events"


def acked(scene: Scene) -> list[Envelope]:
    return [envelope for envelope in scene.slack.journal.envelopes if envelope.acked_at is not None]


async def test_several_connections_in_several_processes_make_one_turn_of_each_event(
    office: Scene, address: Address, model: OpenAIStub
) -> None:
    office.slack.events.copies = 2
    model.play(lambda _body, _number: Answer("Once."))
    second = SlackPlatform(office.own)
    async with open_parley(office.settings, address, model, senders={"slack": second}) as other:
        listening = asyncio.create_task(second.listen(other.app))
        await office.slack.socket.until(2)
        for number in range(5):
            await office.ann.mentions(office.general, f"question {number}")
        await office.ann.hears(office.general, 5)
        await office.until_value(5, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
        await ended(listening)

    assert await office.value(COUNT) == 5
    assert len({envelope.by for envelope in office.slack.journal.envelopes}) == 2
    assert office.ann.reads(office.general) == ["Once."] * 5


async def test_an_eleventh_process_stands_by_until_there_is_a_place(
    office: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Once."))
    async with open_parley(office.settings, address, model, works=False) as other:
        tasks = [asyncio.create_task(SlackPlatform(office.own).listen(other.app)) for _ in range(9)]
        await office.slack.socket.until(10)
        tasks.append(asyncio.create_task(SlackPlatform(office.own).listen(other.app)))
        await office.until_value(11, "SELECT count(*) FROM listeners")
        for number in range(11):
            await office.ann.mentions(office.general, f"question {number}")
        await office.ann.hears(office.general, 11)
        assert office.slack.socket.opened == 10

        await ended(tasks[0])
        await office.slack.until(lambda: office.slack.socket.opened == 11)
        for task in tasks:
            await ended(task)
    assert await office.value(COUNT) == 11


async def test_a_socket_whose_process_lost_its_place_is_closed_and_comes_back(office: Scene, model: OpenAIStub) -> None:
    model.play([Answer("Hello.")])
    crowd = (
        "INSERT INTO listeners (id, bot_id, holder, alive_until)"
        " SELECT -number, bot_id, 'other ' || number, now() + interval '5 s'"
        " FROM listeners, generate_series(1, 10) AS number"
    )
    await office.sql(crowd)
    await office.slack.socket.until_gone()

    await office.slack.socket.until()
    await office.ann.direct("hello")
    assert await office.ann.hears() == ["Hello."]


async def test_an_acknowledgement_goes_out_when_the_message_is_stored(office: Scene, owner: asyncpg.Connection) -> None:
    office.slack.delivery.retry_delays = (0.1, 60.0)
    office.slack.delivery.ack_seconds = 0.5
    await owner.execute("ALTER TABLE inbox RENAME TO inbox_that_is_away")

    await office.ann.direct("hello")
    await office.slack.until(lambda: len(office.slack.journal.envelopes) == 2)
    assert acked(office) == []
    await owner.execute("ALTER TABLE inbox_that_is_away RENAME TO inbox")
    envelope = office.slack.journal.envelopes[0]
    office.slack.delivery.ack_seconds = 30
    again = await office.slack.delivery.give("events_api", envelope.payload)

    assert again.acked_at is not None
    assert await office.value(COUNT) == 1


async def test_an_acknowledgement_that_is_lost_or_late_makes_no_second_turn(office: Scene) -> None:
    # The answer waits, so that only the question's acknowledgements are lost.
    hold, script = gated_answer("Once.")
    office.model.play(script)
    office.slack.delivery.retry_delays = (0.0, 0.2, 0.2)
    office.slack.delivery.ack_seconds = 1.0
    office.slack.socket.lose_acks = 2

    await office.ann.direct("hello")
    await office.slack.until(lambda: acked(office))
    assert [envelope.attempt for envelope in office.slack.journal.envelopes] == [0, 1, 2]
    hold.set()
    await office.until_value("delivered", "SELECT status FROM outbox")

    assert len(office.model.requests) == 1
    assert office.ann.reads() == ["Once."]
    assert await office.value(COUNT) == 1


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_a_connection_that_is_refreshed_loses_nothing(office: Scene, reason: str) -> None:
    office.model.play([Answer("Before."), Answer("After.")])
    office.slack.delivery.retry_delays = (0.1, 0.5, 1.0)

    await office.slack.socket.ask_to_reconnect(reason)
    await office.ann.direct("hello")
    await office.ann.hears()
    await office.slack.until(lambda: office.slack.socket.opened == 2)
    await office.slack.socket.until()
    await office.ann.direct("hello again")

    assert await office.ann.hears(count=2) == ["Before.", "After."]


async def test_an_app_token_that_is_refused_is_told_and_tried_again(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = SlackPlatform(replace(scene.own, app_token=SecretStr("xapp-wrong")))
    async with open_parley(scene.settings, address, model, senders={"slack": platform}, works=False) as parley:
        listening = asyncio.create_task(platform.listen(parley.app))
        await scene.slack.until(lambda: scene.slack.calls("apps.connections.open"))
        result = ""
        while "platform_refuses" not in result:
            await asyncio.sleep(0.01)
            result += capsys.readouterr().out
        assert "SLACK_APP_TOKEN" in result
        assert "SLACK_BOT_TOKEN" not in result
        assert "Traceback" not in result
        assert not platform.connected.is_set()
        assert not listening.done()
        await ended(listening)


async def test_events_that_come_by_http_are_answered_and_their_copies_are_not(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Hi Ann."), Answer("Hi Bob.")])
    async with open_over_http(scene, address, model) as url:
        # Slack asks an address for its challenge before it sends anything there.
        await scene.slack.deliver_to(url)
        scene.slack.events.copies = 2
        scene.slack.delivery.retry_delays = (1.1,)
        await scene.ann.direct("hello")
        assert await scene.ann.hears() == ["Hi Ann."]
        await scene.bob.mentions(scene.general, "hello")

        assert await scene.bob.hears(scene.general) == ["Hi Bob."]
        assert await scene.value(COUNT) == 2
        assert all(envelope.seconds < 3 for envelope in acked(scene) if envelope.seconds is not None)


async def test_only_fresh_signed_requests_are_accepted_and_each_once(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Hi.")])
    event = {"type": "message", "channel": scene.ann.dm["id"], "user": scene.ann.id, "text": "hello", "ts": "1.5"}
    body = json.dumps({"type": "event_callback", "team_id": scene.slack.team_id, "event": event}).encode()
    now = str(int(time.time()))
    genuine = sign(scene.slack.signing_secret, now, body)
    old = str(int(time.time()) - 301)
    ahead = str(int(time.time()) + 400)
    attempts = [
        {},
        {"x-slack-request-timestamp": now},
        {"x-slack-request-timestamp": now, "x-slack-signature": "v0=é"},
        {"x-slack-request-timestamp": now, "x-slack-signature": sign("guessed", now, body)},
        {"x-slack-request-timestamp": now, "x-slack-signature": sign(scene.slack.signing_secret, now, body + b" ")},
        {"x-slack-request-timestamp": old, "x-slack-signature": sign(scene.slack.signing_secret, old, body)},
        {"x-slack-request-timestamp": ahead, "x-slack-signature": sign(scene.slack.signing_secret, ahead, body)},
        {"x-slack-request-timestamp": "soon", "x-slack-signature": genuine},
        {"x-slack-request-timestamp": "٣" * 10, "x-slack-signature": genuine},
        {"x-slack-request-timestamp": now, "x-slack-signature": genuine},
        {"x-slack-request-timestamp": now, "x-slack-signature": genuine},
    ]
    async with open_over_http(scene, address, model) as url, httpx.AsyncClient() as client:
        answers = []
        for attempt in attempts:
            headers = [(name.encode(), value.encode()) for name, value in attempt.items()]
            answers.append((await client.post(url, content=body, headers=headers)).status_code)
        too_much = await client.post(url, content=b"x" * 2_000_000)
        response = await client.get(url)

    assert answers == [401] * 9 + [200, 401]
    assert too_much.status_code == 413
    assert response.status_code == 405


async def test_a_check_of_the_certificate_is_answered_and_signed_rubbish_is_refused(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    rubbish = ["{", "null", "[]", "payload=x", "payload=null", "", "what=else", "[" * 50_000]
    rubbish += [
        '{"type": "event_callback", "event": "x"}',
        '{"type": "event_callback", "event": {"type": ["message"]}}',
    ]
    answers = []
    async with open_over_http(scene, address, model) as url, httpx.AsyncClient() as client:
        response = await client.post(url, data={"token": "x", "ssl_check": "1"})
        for number, body in enumerate(rubbish):
            now = str(int(time.time()) - number)
            signature = sign(scene.slack.signing_secret, now, body.encode())
            kind = "application/json" if body[:1] in "{n[" else "application/x-www-form-urlencoded"
            headers = {"x-slack-request-timestamp": now, "x-slack-signature": signature, "content-type": kind}
            answers.append((await client.post(url, content=body, headers=headers)).status_code)

    assert response.status_code == 200
    assert answers == [400] * len(rubbish)
    output = capsys.readouterr().out
    assert "Traceback" not in output
    assert "event.type: Input should be a valid string" in output


async def test_a_signed_event_of_another_workspace_is_not_answered_with_our_token(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("For us.")])
    other = scene.slack.world.add_team("Foreign")
    event = {
        "type": "message",
        "channel": "D0FOREIGN",
        "channel_type": "im",
        "user": "U0FOREIGN",
        "text": "hi",
        "ts": "1.5",
    }
    body = json.dumps({"type": "event_callback", "team_id": other["id"], "event": event}).encode()
    now = str(int(time.time()))
    headers = {"x-slack-request-timestamp": now, "x-slack-signature": sign(scene.slack.signing_secret, now, body)}
    async with open_over_http(scene, address, model) as url, httpx.AsyncClient() as client:
        await scene.slack.deliver_to(url)
        result = await client.post(url, content=body, headers=headers)
        await scene.ann.direct("hello")

        assert await scene.ann.hears() == ["For us."]
        assert await scene.value(COUNT) == 1
    assert result.status_code == 200


async def test_without_a_signing_secret_the_routes_are_not_found(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    scene.settings = scene.settings.model_copy(update={"port": 0})
    async with scene.opened(address, model, listens=False), open_site(scene.parley) as site:
        answer = await site.client.post("/slack/events", content=b"{}")

    assert answer.status_code == 404
    assert "SLACK_SIGNING_SECRET" in answer.text


async def test_what_came_while_no_web_adapter_ran_is_read_with_its_first_request(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Hi."), Answer("I am.")])
    async with open_over_http(scene, address, model) as url:
        await scene.slack.delivery.deliver_to(url)
        await scene.ann.direct("hello")
        await scene.ann.hears()
        await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")
    await scene.ann.direct("are you there?", is_heard=False)
    async with open_over_http(scene, address, model) as url:
        await scene.slack.delivery.deliver_to(url)
        assert await scene.ann.hears(count=2) == ["Hi.", "I am."]
