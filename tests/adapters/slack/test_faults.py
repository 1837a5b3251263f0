"""What Slack refuses or breaks: waited for, told once, and never lost without a word."""

import asyncio
from datetime import UTC, datetime

import pytest

from adapters.slack.platform import SlackPlatform
from adapters.slack.transport.pace import SharedPace
from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Limits, Person
from tests.standins.slack.world import stamp
from tests.support.connections import connected
from tests.support.parley import open_parley

# Both counts were limited to 50.
THREADS = 60
KNOWN_PLACES = """
INSERT INTO conversations (platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct)
VALUES ('slack', :team, :channel, :ts, false), ('slack', :team, :dm, NULL, true)
"""
FAILED = "SELECT count(*) FROM outbox WHERE status = 'failed'"


async def until_noted(scene: Scene) -> None:
    """Let Ann say hello, and wait for the answer and for the mark from which catching up begins."""
    await scene.ann.direct("hello")
    await scene.ann.hears()
    await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")


async def test_a_channel_that_is_posted_to_too_often_is_left_alone_for_as_long_as_slack_asks(office: Scene) -> None:
    office.model.play([Answer("One."), Answer("Two."), Answer("Three.")])
    office.slack.fail("chat.postMessage", retry_after=2)

    await office.ann.mentions(office.general, "hello")
    await office.slack.until(lambda: office.slack.calls("chat.postMessage"))
    await office.bob.mentions(office.general, "hello")
    await office.bob.direct("hello")
    await office.ann.hears(office.general, 2)
    await office.bob.hears()

    first, *others = office.slack.calls("chat.postMessage")
    in_channel = [other for other in others if other.args["channel"] == office.general["id"]]
    (direct,) = [other for other in others if other not in in_channel]
    assert first.status == 429
    assert len(in_channel) == 2
    assert all(call.at - first.at >= 2 for call in in_channel)
    # Another channel does not wait for this one.
    assert direct.at < in_channel[0].at


async def test_a_reply_for_which_slack_asks_to_wait_for_long_waits_and_is_not_given_up(
    office: Scene,
) -> None:
    office.model.play([Answer("Late.")])
    office.slack.fail("chat.postMessage", retry_after=300)

    await office.ann.mentions(office.general, "hello")
    await office.until_value(1, "SELECT count(*) FROM outbox WHERE claimed_until > now() + interval '290 seconds'")
    await office.parley.app.outbox.sweep()

    assert await office.value("SELECT attempts FROM outbox") == 0
    assert len(office.slack.calls("chat.postMessage")) == 1


async def test_a_flood_in_one_channel_costs_few_calls_more_than_it_has_answers_also_with_two_workers(
    office: Scene, address: Address, model: OpenAIStub
) -> None:
    office.slack.limits = Limits(posts=1, post_seconds=1.0)
    model.play(lambda _body, _number: Answer("Hello."))
    second = SlackPlatform(office.own)

    async with open_parley(office.settings, address, model, senders={"slack": second}):
        for number in range(15):
            await office.ann.mentions(office.general, f"question {number}")
        await office.until_value(15, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    posts = office.slack.calls("chat.postMessage")
    assert len(office.ann.written(office.general)) == 15
    assert len(posts) <= 1.2 * 15


async def test_live_text_that_is_limited_was_not_posted_and_nothing_is_looked_up_for_its_answer(office: Scene) -> None:
    office.model.play([Answer("Slowly but surely.", chunk_chars=4, chunk_delay=0.4)])
    office.slack.fail("chat.startStream", error="feature_not_enabled")
    office.slack.fail("chat.postMessage", retry_after=2)

    await office.ann.mentions(office.general, "slowly")
    await office.until_value(1, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    assert [call.status for call in office.slack.calls("chat.postMessage")] == [429, 200]
    assert office.slack.calls("conversations.replies") == []
    assert office.ann.reads(office.general) == ["Slowly but surely."]


async def test_live_text_that_would_have_to_wait_takes_no_turn_of_a_reply(office: Scene) -> None:
    pace = SharedPace(office.parley.app.database, office.slack.team_id, "chat.postMessage", channel="C1")
    await pace.slow_down(30)

    live, reply = await pace.reserve(max_wait=0), await pace.reserve(max_wait=60)

    assert live is not None
    assert reply is not None
    assert 0 < reply.wait <= live.wait


async def test_a_server_that_fails_for_long_gets_the_reply_later(office: Scene) -> None:
    office.model.play([Answer("At last.")])
    office.slack.fail("chat.postMessage", status=503, times=1)

    await office.ann.direct("hello")
    await office.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    await office.sql("UPDATE outbox SET claimed_until = now()")

    assert await office.ann.hears() == ["At last."]


@pytest.mark.parametrize(
    ("code", "reason"),
    [("not_in_channel", "I am not in that channel"), ("is_archived", "that channel is archived")],
)
async def test_a_channel_where_it_may_not_write_is_told_once_by_direct_message(
    office: Scene, code: str, reason: str
) -> None:
    office.model.play([Answer("One."), Answer("Two.")])
    office.slack.fail("chat.postMessage", error=code, times=5, only={"channel": office.general["id"]})

    await office.ann.mentions(office.general, "hello")
    (notice,) = await office.ann.hears()
    await office.until_value(1, FAILED)
    await office.ann.mentions(office.general, "hello again")
    await office.until_value(2, FAILED)

    assert notice.startswith(f"I have an answer for you in #general, but {reason}")
    assert len(office.ann.reads()) == 1
    assert code in await office.value("SELECT error FROM outbox LIMIT 1")


async def test_who_takes_no_direct_messages_stays_without_a_notice(office: Scene) -> None:
    office.model.play([Answer("One.")])
    office.slack.fail("chat.postMessage", error="not_in_channel")
    office.slack.fail("conversations.open", error="cannot_dm_bot")

    await office.ann.mentions(office.general, "hello")
    await office.until_value(1, FAILED)

    assert await office.value("SELECT error FROM outbox") == "Slack refuses this: chat.postMessage: not_in_channel."


async def test_a_token_that_is_revoked_is_told_once_and_the_reply_stays_for_later(
    office: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    office.model.play([Answer("With the token again.")])
    office.slack.fail("chat.postMessage", error="token_revoked", times=2)
    office.slack.fail("conversations.history", error="token_revoked")

    await office.ann.direct("hello")
    await office.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    await office.sql("UPDATE outbox SET claimed_until = now()")
    await office.slack.until(lambda: len(office.slack.journal.refused) == 2)
    office.slack.faults.clear()
    await office.until_value("pending", "SELECT status FROM outbox")
    await office.sql("UPDATE outbox SET claimed_until = now()")

    assert await office.ann.hears() == ["With the token again."]
    result = capsys.readouterr().out
    assert result.count("slack_token_refused") == 1
    assert "SLACK_BOT_TOKEN" in result
    assert office.slack.bot_token not in result


async def test_unknown_names_delay_a_message_for_a_moment_only(office: Scene) -> None:
    office.model.play([Answer("Whoever you are.")])
    office.slack.fail("users.info", retry_after=60, times=5)
    office.slack.fail("conversations.info", seconds=30)

    await office.ann.mentions(office.general, "hello")
    await office.slack.until(lambda: [envelope for envelope in office.slack.journal.envelopes if envelope.acked_at])

    assert (office.slack.journal.envelopes[0].seconds or 9) < 3
    assert await office.ann.hears(office.general) == ["Whoever you are."]


async def test_a_thread_whose_beginning_can_not_be_read_is_answered_all_the_same(office: Scene) -> None:
    office.model.play([Answer("I see nothing.")])
    office.slack.fail("conversations.replies", seconds=30)
    question = await office.bob.posts(office.general, "what colour are bikes?", is_heard=False)

    await office.bob.posts(office.general, "brown?", thread_ts=question["ts"])
    await office.ann.mentions(office.general, "is that right?", thread_ts=question["ts"])

    assert await office.ann.hears(office.general) == ["I see nothing."]
    # What was heard of it by itself is there.
    assert "bob: brown?" in office.prompt()


async def test_what_was_written_while_it_was_down_is_answered_once_it_is_back(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("In the channel."), Answer("Directly.")])
    scene.slack.world.add_channel("never-talked-here")
    async with scene.opened(address, model):
        question = await scene.ann.mentions(scene.general, "hello")
        await scene.ann.hears(scene.general)
        await scene.bob.direct("hello")
        await scene.bob.hears()
        await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")
    await scene.slack.socket.until_gone()
    long_ago = {"ts": stamp(datetime.now(UTC).timestamp() - 3600)}
    scene.slack.world.keep_message(scene.bob.dm, "yesterday", user=scene.bob.id, **long_ago)
    await scene.ann.posts(scene.general, "one more", thread_ts=question["ts"], is_heard=False)
    await scene.ann.posts(scene.general, "not for you", is_heard=False)
    await scene.bob.mentions(scene.general, "a new one", is_heard=False)
    await scene.bob.direct("are you there?", is_heard=False)

    model.play([Answer("Caught up.")] * 5)
    scene.slack.journal.clear()
    async with scene.opened(address, model):
        await scene.ann.hears(scene.general, 2, thread_ts=question["ts"])
        await scene.until_value(5, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
        channels = {call.args["channel"] for call in scene.slack.calls("conversations.history")}

        contents = [row.content for row in await scene.sql("SELECT content FROM inbox")]
    assert sorted(contents) == sorted(["hello", "hello", "one more", "a new one", "are you there?"])
    assert channels == {scene.general["id"], scene.bob.dm["id"]}
    assert not [call for call in scene.slack.calls() if call.method in ("conversations.list", "users.conversations")]


async def test_what_was_refused_for_longer_than_slack_repeats_is_read_when_it_can_be_stored(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Hi."), Answer("I am.")])
    async with scene.opened(address, model):
        await until_noted(scene)
    await scene.slack.socket.until_gone()
    scene.slack.delivery.retry_delays, scene.slack.delivery.ack_seconds = (), 0.5
    # Nobody can tell whose token this is.
    away = scene.slack.fail("auth.test", status=503, times=1_000_000)
    async with scene.opened(address, model):
        await scene.ann.direct("are you there?")
        await scene.slack.until(lambda: [one.failure for one in scene.slack.journal.envelopes if not one.acked_at])
        away.times = 0
        assert await scene.ann.hears(count=2) == ["Hi.", "I am."]


async def test_a_channel_that_can_not_be_read_after_a_start_is_read_later(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Hi."), Answer("Caught up.")])
    async with scene.opened(address, model):
        await until_noted(scene)
    await scene.slack.socket.until_gone()
    await scene.ann.direct("are you there?", is_heard=False)

    scene.slack.fail("conversations.history", status=503, times=2)
    async with scene.opened(address, model):
        assert await scene.ann.hears(count=2) == ["Hi.", "Caught up."]


async def test_a_channel_that_can_not_be_read_keeps_no_other_waiting_and_is_given_up_in_time(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    model.play([Answer("Hi."), Answer("There."), Answer("Caught up.")])
    async with scene.opened(address, model):
        await scene.ann.direct("hello")
        await scene.ann.hears()
        await scene.ann.mentions(scene.general, "hello")
        await scene.ann.hears(scene.general)
        await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")
    await scene.slack.socket.until_gone()
    await scene.ann.direct("are you there?", is_heard=False)
    scene.slack.fail("conversations.history", only={"channel": scene.general["id"]}, status=503, times=1000)

    async with scene.opened(address, model, read_seconds=5.0):
        # The channel was used last, and is read first.
        assert await scene.ann.hears(count=2) == ["Hi.", "Caught up."]
        printed = ""
        async with asyncio.timeout(60):
            while "slack_places_not_read" not in printed:
                printed += capsys.readouterr().out
                await asyncio.sleep(0.1)
    assert "channels=1 " in printed


@pytest.mark.timeout(300)
async def test_every_place_of_a_busy_workspace_is_caught_up_with(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play(lambda _body, _number: Answer("Here."))
    people = [Person(scene.slack, f"Person{number}") for number in range(THREADS)]
    roots = [
        scene.slack.world.keep_message(scene.general, f"root {number}", user=person.id, team=scene.slack.team_id)
        for number, person in enumerate(people)
    ]
    async with scene.opened(address, model):
        await until_noted(scene)
        # What began the threads is read again, and was for nobody.
        await scene.sql("UPDATE shards SET seen_id = '1.000000'")
    await scene.slack.socket.until_gone()
    for root, member in zip(roots, people, strict=True):
        parameters = {
            "team": scene.slack.team_id,
            "channel": scene.general["id"],
            "dm": member.dm["id"],
            "ts": root["ts"],
        }
        await scene.sql(KNOWN_PLACES, **parameters)
        await member.posts(scene.general, "in a thread", thread_ts=root["ts"], is_heard=False)
        await member.direct("directly", is_heard=False)

    async with scene.opened(address, model, works=False):
        await scene.until_value(1 + 2 * THREADS, "SELECT count(*) FROM inbox")


@pytest.mark.parametrize("mark", ["9999999999999999999", "9"])
async def test_a_time_that_is_still_to_come_or_says_little_stops_no_catch_up(
    scene: Scene, address: Address, model: OpenAIStub, mark: str
) -> None:
    model.play([Answer("Hi.")] * 2)
    async with scene.opened(address, model):
        await until_noted(scene)
    await scene.slack.socket.until_gone()
    await scene.ann.direct("are you there?", is_heard=False)
    async with connected(address, as_owner=False) as program:
        await program.execute("UPDATE shards SET seen_id = $1", mark)

    async with scene.opened(address, model):
        await scene.ann.hears(count=2)
        # It is not kept.
        await scene.until_value(1, "SELECT count(*) FROM shards WHERE seen_id <> :mark", mark=mark)


async def test_what_lies_further_back_than_the_setting_says_is_left(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Hi.")] * 3)
    async with scene.opened(address, model):
        await until_noted(scene)
        await scene.sql("UPDATE shards SET seen_id = '1.000000'")
    await scene.slack.socket.until_gone()
    long_ago = {"ts": stamp(datetime.now(UTC).timestamp() - 7200)}
    scene.slack.world.keep_message(scene.ann.dm, "long ago", user=scene.ann.id, **long_ago)
    await scene.ann.direct("just now", is_heard=False)

    scene.settings = scene.settings.model_copy(update={"catch_up_hours": 1.0})
    async with scene.opened(address, model):
        await scene.ann.hears(count=2)
        await asyncio.sleep(0)
        assert await scene.sql("SELECT content FROM inbox ORDER BY id") == [("hello",), ("just now",)]


async def test_a_bot_token_that_is_refused_is_told_at_the_start_and_tried_again(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    model.play([Answer("With the right one.")])
    scene.slack.fail("auth.test", error="invalid_auth")
    async with scene.opened(address, model):
        await scene.ann.direct("hello")
        assert await scene.ann.hears() == ["With the right one."]

    result = capsys.readouterr().out
    assert result.count("slack_token_refused") == 1
    assert "SLACK_BOT_TOKEN" in result
