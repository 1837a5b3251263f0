"""Rows are kept as long as the settings say, and no longer; what is still needed stays."""

import asyncio

import asyncpg
import pytest

from adapters.cli.worker import build_worker
from agent.queue.maintenance.retention import remove_expired
from agent.queue.maintenance.steps import MAINTENANCE_LOCK, Steps, statements
from agent.queue.maintenance.totals import count_finished
from shared.clock import SystemClock
from shared.db.database import Address
from shared.errors import ConfigurationError
from shared.settings import Settings, settings_from
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected, until_somebody_waits
from tests.support.parley import Parley, open_parley
from tests.support.past import age, count_rows, write_past

TABLES = ("inbox", "outbox", "turn_events", "confirmations", "token_logs", "turns", "messages")
CANCELLED = """
INSERT INTO users (id) VALUES (1);
INSERT INTO conversations (id, platform, platform_channel_id) VALUES (1, 'test', 'c');
INSERT INTO scheduled_jobs (id, user_id, conversation_id, adapter, platform_user_id, content, starts_at, status,
                            ended_at, created_at)
SELECT id, 1, 1, 'fake', 'ann', 'Tea.', now() + interval '1 day', 'cancelled', now() - interval '100 days',
       now() - interval '200 days'
FROM generate_series(1, 2) AS id;
"""


def steps_of(parley: Parley) -> Steps:
    return Steps(parley.app.database, SystemClock(), pause_factor=0)


@pytest.fixture
def brief(settings: Settings) -> Settings:
    """Settings that keep everything for a short time, each kind for another."""
    return settings.model_copy(
        update={
            "retention_inbox_days": 10,
            "retention_outbox_days": 20,
            "retention_events_days": 30,
            "retention_confirmations_days": 40,
            "retention_logs_days": 50,
        }
    )


async def test_each_kind_is_kept_for_its_days_and_the_transcript_for_ever(
    brief: Settings, parley: Parley, address: Address
) -> None:
    await write_past(address, turns=2000, days=100)
    await count_finished(steps_of(parley))

    await remove_expired(steps_of(parley), brief)

    counts = await count_rows(address, *TABLES)
    # 20 turns a day; the newest is of now.
    estimates = {
        "inbox": 10 * 20,
        "outbox": 20 * 20,
        # The days of a partition and one longer.
        "turn_events": (30 + 30 // 12 + 1) * 20 * 4,
        "confirmations": 40 * 20 // 20,
        "token_logs": 50 * 20 * 2,
    }
    assert {table: counts[table] for table in estimates} == pytest.approx(estimates, abs=12)
    assert (counts["turns"], counts["messages"]) == (2000, 4000)
    assert await parley.value("SELECT min(created_at) > now() - interval '10 days' FROM inbox")
    assert set((await remove_expired(steps_of(parley), brief)).values()) == {0}


async def test_what_is_open_or_not_counted_stays_whatever_its_age(
    brief: Settings, parley: Parley, address: Address
) -> None:
    await write_past(address, turns=60, days=0)
    await parley.sql("UPDATE inbox SET status = 'claimed' WHERE id % 3 = 0")
    await parley.sql("UPDATE outbox SET status = 'pending' WHERE id % 3 = 0")
    await parley.sql("UPDATE turns SET status = 'running', finished_at = NULL WHERE id = (SELECT max(id) FROM turns)")
    await age(address, 1000)

    await remove_expired(steps_of(parley), brief)

    counts = await count_rows(address, *TABLES)
    assert counts["inbox"] == counts["outbox"] == 20
    assert counts["turn_events"] == 4
    assert counts["token_logs"] == 120


async def test_an_event_that_comes_again_gets_its_answer_within_the_retention_of_the_inbox(
    brief: Settings, parley: Parley, address: Address
) -> None:
    first = await parley.ask("hello", event_id="event-1")
    await age(address, 9)

    await remove_expired(steps_of(parley), brief)

    assert await parley.ask("hello", event_id="event-1") == first
    assert len(parley.model.requests) == 1
    accepted = await parley.accept("hello", event_id="event-1")
    assert [event.name async for event in parley.app.events.follow(accepted.inbox_id)][-1] == "turn_complete"


async def test_one_process_at_a_time_removes(brief: Settings, parley: Parley, address: Address) -> None:
    await write_past(address, turns=20, days=100)
    async with parley.app.database.transaction() as session:
        await session.execute(statements.begin_step, {"key": MAINTENANCE_LOCK})
        assert set((await remove_expired(steps_of(parley), brief)).values()) == {0}

    assert sum((await remove_expired(steps_of(parley), brief)).values()) > 0


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"RETENTION_INBOX_DAYS": "1"}, "RETENTION_INBOX_DAYS is wrong: "),
        ({"CATCH_UP_HOURS": "48", "RETENTION_INBOX_DAYS": "2"}, "at least a day more than CATCH_UP_HOURS"),
        ({"RETENTION_OUTBOX_DAYS": "7"}, "RETENTION_OUTBOX_DAYS is wrong: it must be at least RETENTION_INBOX_DAYS"),
        ({"RETENTION_INBOX_DAYS": "400"}, "RETENTION_OUTBOX_DAYS is wrong: it must be at least RETENTION_INBOX_DAYS"),
        ({"RETENTION_LOGS_DAYS": "30", "RETENTION_INBOX_DAYS": "7"}, "RETENTION_LOGS_DAYS is wrong: "),
        ({"RETENTION_EVENTS_DAYS": "for ever"}, "RETENTION_EVENTS_DAYS is wrong: "),
    ],
)
def test_settings_that_would_answer_an_event_twice_or_lose_its_answer_are_refused(
    variables: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        settings_from(variables)


async def until_a_worker_has_removed(brief: Settings, address: Address, model: OpenAIStub) -> None:
    """Let a worker run until it has removed the rows of the past."""
    async with open_parley(brief, address, model, works=False) as parley:
        working = asyncio.create_task(build_worker(parley.app, maintenance_seconds=0.05).run())
        async with asyncio.timeout(30):
            while (await count_rows(address, "token_logs"))["token_logs"] > 20:  # noqa: ASYNC110  # rows tell nobody
                await asyncio.sleep(0.02)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_a_worker_removes_by_itself(brief: Settings, address: Address, model: OpenAIStub) -> None:
    await write_past(address, turns=20, days=100)
    await until_a_worker_has_removed(brief, address, model)


async def test_a_part_of_the_maintenance_that_the_database_refuses_stops_no_other(
    brief: Settings, address: Address, model: OpenAIStub
) -> None:
    await write_past(address, turns=20, days=100)
    async with connected(address) as owner:
        await owner.execute("REVOKE EXECUTE ON FUNCTION parley_make_partitions FROM parley_app")
    await until_a_worker_has_removed(brief, address, model)


async def test_a_cancelled_job_that_is_resumed_while_old_ones_are_removed_stays(
    address: Address, owner: asyncpg.Connection
) -> None:
    await owner.execute(CANCELLED)
    async with connected(address, as_owner=False) as person, connected(address, as_owner=False) as worker:
        async with person.transaction():
            await person.execute(
                "UPDATE scheduled_jobs SET status = 'active', next_due_at = starts_at, ended_at = NULL WHERE id = 1"
            )
            removal = asyncio.create_task(
                worker.fetchrow("SELECT * FROM parley_remove_expired('scheduled_jobs', 90, 0)")
            )
            await until_somebody_waits(person)
        removed = await removal

    assert (removed["removed"], await owner.fetchval("SELECT array_agg(id) FROM scheduled_jobs")) == (1, [1])
