"""Slack away for long: answers arrive once, in order, and are found again by their metadata after hours."""

import asyncpg
import pytest
from sqlalchemy import text

from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer
from tests.support.chat_scene import DIES_BEFORE_ITS_NOTE_IS_REMOVED

# Replies to commands that the platform has not taken.
KEPT = "SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed') AND error IS NOT NULL"
ANSWERED = "SELECT count(*) FROM inbox WHERE status = 'answered'"


async def test_answers_of_an_outage_arrive_once_and_in_order_when_slack_is_back(office: Scene) -> None:
    office.model.play([Answer(f"Answer {number}.") for number in range(6)])
    away = office.slack.fail("chat.postMessage", status=503, times=1_000_000)
    for number in range(3):
        await office.ann.direct(f"hello {number}")
        await office.until_value(2 * number + 1, ANSWERED)
        await office.bob.direct(f"hello {number}")
        await office.until_value(2 * number + 2, ANSWERED)
    await office.until_value(office.slack.team_id, "SELECT scope FROM delivery_outages WHERE is_down")
    assert await office.value("SELECT count(*) FROM outbox WHERE status IN ('pending', 'claimed')") == 6
    away.times = 0
    await office.sql("UPDATE delivery_outages SET next_probe_at = now()")

    assert await office.ann.hears(count=3) == ["Answer 0.", "Answer 2.", "Answer 4."]
    assert await office.bob.hears(count=3) == ["Answer 1.", "Answer 3.", "Answer 5."]
    await office.until_value(6, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    assert await office.value("SELECT count(*) FROM delivery_outages") == 0


async def test_an_answer_that_was_posted_is_found_hours_later_behind_what_people_wrote_since(office: Scene) -> None:
    office.model.play([Answer("Once.")])
    # It takes effect, but its answer is a 503.
    office.slack.fail("chat.postMessage", status=503, after=True)
    lookup = office.slack.fail("conversations.history", status=503, times=1_000_000)
    await office.ann.direct("hello")
    await office.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    for number in range(2_000):
        office.slack.world.keep_message(office.ann.dm, f"note {number}", user=office.ann.id)
    lookup.times = 0
    await office.sql(
        "UPDATE outbox SET created_at = now() - interval '5 hours', claimed_until = now(), tried_at = now()"
    )
    await office.until_value("delivered", "SELECT status FROM outbox")

    # It came in time, so it does not say that it is late.
    assert await office.ann.hears() == ["Once."]


async def test_answers_to_commands_arrive_when_slack_is_back(office: Scene) -> None:
    methods = ("chat.postMessage", "chat.postEphemeral", "conversations.open")
    away = [office.slack.fail(method, status=503, times=1_000_000) for method in methods]
    await office.ann.direct("/budget")
    await office.bob.mentions(office.general, "/me")
    await office.until_value(2, KEPT)
    for fault in away:
        fault.times = 0
    await office.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await office.sql("UPDATE delivery_outages SET next_probe_at = now()")

    assert "5,000 tokens" in (await office.ann.hears())[0]
    assert "You are bob" in (await office.bob.hears())[0]
    assert office.bob.written(office.general) == []
    await office.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")


@pytest.mark.parametrize(("command", "answer"), [("/budget", "5,000 tokens"), ("/login", "This link opens")])
async def test_the_answer_to_a_typed_command_that_was_posted_in_an_outage_is_not_posted_again(
    office: Scene, command: str, answer: str
) -> None:
    away = office.slack.fail("chat.postMessage", status=503, times=1_000_000, after=True)
    await office.ann.direct(command)
    await office.until_value(1, KEPT)
    away.times = 0
    await office.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await office.until_value("delivered", "SELECT status FROM outbox")

    (shown,) = await office.ann.hears()
    assert answer in shown


async def test_one_channel_that_answers_503_holds_up_no_other(office: Scene) -> None:
    office.model.play([Answer("One."), Answer("Two.")])
    office.slack.fail("chat.postMessage", status=503, times=1_000_000, only={"channel": office.general["id"]})
    await office.ann.mentions(office.general, "hello")
    await office.until_value(True, "SELECT error IS NOT NULL FROM outbox")

    await office.ann.direct("hello")

    assert await office.ann.hears() == ["Two."]


async def test_the_answer_to_a_slash_command_comes_directly_with_its_buttons_when_slack_is_back(office: Scene) -> None:
    office.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes bikes"})]), Answer("Noted.")])
    await office.ann.direct("I like bikes")
    await office.until_value("delivered", "SELECT status FROM outbox")
    methods = ("response_url", "chat.postMessage", "chat.postEphemeral")
    away = [office.slack.fail(method, status=503, times=1_000_000) for method in methods]

    await office.ann.slash(office.ann.dm, "/parley", "memory forget about bikes")
    await office.bob.slash(office.general, "/parley", "me")
    await office.until_value(2, KEPT)
    for fault in away:
        fault.times = 0
    await office.sql("UPDATE outbox SET claimed_until = now(), tried_at = now() - interval '1 minute'")
    await office.sql("UPDATE delivery_outages SET next_probe_at = now()")

    assert "Ann likes bikes" in (await office.ann.hears(count=2))[1]
    assert "You are bob" in (await office.bob.hears())[0]
    assert office.bob.written(office.general) == []
    await office.until_value(3, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    confirmation = await office.ann.presses(office.ann.dm, office.ann.written()[1], "Yes, do it")
    assert "I have forgotten" in (await confirmation.answered())[0]


async def test_what_a_button_is_answered_with_is_shown_once_when_its_process_dies_before_it_notes_that(
    office: Scene, owner: asyncpg.Connection
) -> None:
    await office.ann.direct("hello")
    await office.until_value("delivered", "SELECT status FROM outbox")
    await owner.execute("INSERT INTO memories (user_id, scope, content) SELECT id, 'private', 'boats' FROM users")
    await office.ann.direct("/memory forget all")
    await office.ann.hears(count=2)
    await office.until_value(1, "SELECT count(*) FROM outbox")
    await owner.execute(DIES_BEFORE_ITS_NOTE_IS_REMOVED)

    await office.ann.presses(office.ann.dm, office.ann.written()[1], "Yes, do it")

    await office.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    texts = await office.ann.hears(count=2)
    assert len(texts) == 2
    assert "forgotten" in texts[1]


async def end_statement(office: Scene, words: str) -> None:
    """Break off the connection whose statement waits for a lock."""
    await office.until_value(
        True,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE :words",
        words=f"%{words}%",
    )


async def test_what_a_command_answers_for_all_is_posted_once_when_its_process_dies_before_it_notes_that(
    office: Scene, owner: asyncpg.Connection
) -> None:
    await office.ann.slash(office.general, "/parley", "budget")
    await office.until_value(1, "SELECT count(*) FROM users")
    await office.sql("UPDATE users SET permission_level = 'user'")
    await office.until_value(0, "SELECT count(*) FROM outbox")
    await owner.execute(DIES_BEFORE_ITS_NOTE_IS_REMOVED)

    await office.ann.slash(office.general, "/parley", "reset")

    await office.until_value("delivered", "SELECT status FROM outbox")
    assert await office.ann.hears(office.general) == ["Nothing has been said here yet."]
    # It is found when the person is erased.
    assert (
        await office.value("SELECT count(*) FROM outbox WHERE reply_to IN (SELECT platform_message_id FROM inbox)") == 1
    )


async def test_who_has_given_a_command_is_told_its_name_on_slack(office: Scene) -> None:
    async with office.parley.app.database.transaction() as session:
        await session.execute(text("LOCK TABLE memories"))
        await office.ann.slash(office.general, "/parley", "memory")
        await office.until_value(1, "SELECT count(*) FROM outbox")

        assert "`/parley memory`" in await office.value("SELECT content FROM outbox")


async def test_a_command_that_was_answered_is_not_answered_again_when_the_database_is_lost_meanwhile(
    office: Scene,
) -> None:
    database = office.parley.app.database
    async with database.transaction() as outbox:
        async with database.transaction() as session:
            await session.execute(text("LOCK TABLE memories"))
            interaction = await office.ann.slash(office.general, "/parley", "memory")
            await office.until_value(1, "SELECT count(*) FROM outbox")
            await outbox.execute(text("SELECT FROM outbox FOR UPDATE"))
        await end_statement(office, "UPDATE outbox SET reply_to")
        assert await interaction.answered()
        await end_statement(office, "DELETE FROM outbox")

    await office.until_value(0, "SELECT count(*) FROM outbox")


async def test_a_command_that_could_not_be_run_is_answered_once(office: Scene) -> None:
    async with office.parley.app.database.transaction() as session:
        await session.execute(text("LOCK TABLE conversations"))
        interaction = await office.ann.slash(office.general, "/parley", "stop")
        await office.until_value(1, "SELECT count(*) FROM outbox")
        await end_statement(office, "platform_thread_id")

    assert await interaction.answered()
    await office.until_value(0, "SELECT count(*) FROM outbox")
