"""Dead workers are found by heartbeats that stay the same, whatever the wall clock of the database does."""

import asyncio
from datetime import UTC, datetime, timedelta
from time import monotonic

from adapters.chat.checkpoint import Checkpoint
from adapters.discord.transport.rest import RateLimiter
from agent.queue.heartbeats import AWAY_SECONDS, OLD_SECONDS, STALE_SECONDS, Heartbeat, Heartbeats, LiveWorkers
from agent.queue.job import Job
from agent.queue.worker import Worker
from shared.clock import SystemClock
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley, open_parley

BEAT = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEFT_BY_A_DEAD_WORKER = """
WITH dead AS (
    INSERT INTO workers (last_heartbeat) VALUES (now() + interval '1 hour') RETURNING id
)
UPDATE jobs SET worker_id = dead.id FROM dead
"""


class QuickClock(SystemClock):
    """A monotonic clock on which ten seconds pass in four."""

    def monotonic(self) -> float:
        """Return its seconds."""
        return 2.5 * monotonic()


def look(heartbeats: Heartbeats, at: float, beat: datetime = BEAT, *, is_old: bool = False) -> list[int]:
    """Look at the one worker at a time of the observer's clock."""
    return heartbeats.find_dead([Heartbeat(1, beat, is_old)], at)


def test_a_heartbeat_that_stays_the_same_is_that_of_a_dead_worker() -> None:
    heartbeats = Heartbeats()
    suspects = [look(heartbeats, 100.0 + seconds) for seconds in range(0, int(STALE_SECONDS) + 1, 2)]

    assert suspects == [[]] * 5 + [[1]]


def test_a_worker_that_the_database_calls_old_as_well_is_found_sooner() -> None:
    heartbeats = Heartbeats()
    suspects = [look(heartbeats, 100.0 + seconds, is_old=True) for seconds in range(0, int(OLD_SECONDS) + 1, 2)]

    assert suspects == [[]] * 3 + [[1]]


def test_a_worker_whose_heartbeat_changes_lives_wherever_the_clock_jumps() -> None:
    heartbeats = Heartbeats()
    beats = [BEAT + timedelta(hours=hours) for hours in (0, 1, -1, 2, -2, 0, 3)]

    assert [look(heartbeats, 2.0 * n, beat, is_old=True) for n, beat in enumerate(beats)] == [[]] * len(beats)


def test_an_observer_that_was_away_itself_begins_anew() -> None:
    heartbeats = Heartbeats()
    look(heartbeats, 100.0)

    assert look(heartbeats, 100.0 + 5 * STALE_SECONDS) == []
    assert look(heartbeats, 100.0 + 5 * STALE_SECONDS + AWAY_SECONDS) == []


async def test_the_job_of_a_worker_that_died_before_the_clock_was_set_back_is_taken_over(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    jobs: asyncio.Queue[Job] = asyncio.Queue()
    async with open_parley(settings, address, model, works=False) as parley:
        accepted = await parley.accept("hello")
        await parley.sql(LEFT_BY_A_DEAD_WORKER)
        running = asyncio.create_task(Worker(parley.app.database, QuickClock(), jobs.put).run())
        try:
            async with asyncio.timeout(30):
                job = await jobs.get()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    assert (job.inbox_id, job.deaths) == (accepted.inbox_id, 0)


def is_alive(workers: LiveWorkers, at: float, beat: datetime = BEAT, *, is_old: bool = False) -> bool:
    """Look at the one worker at a time of the observer's clock."""
    return bool(workers.note([Heartbeat(1, beat, is_old)], at))


def test_a_worker_lives_while_its_heartbeat_changes_wherever_the_clock_jumps() -> None:
    workers = LiveWorkers()
    beats = [BEAT + timedelta(hours=hours) for hours in (1, -1, 2, -2, 0, 3)]

    assert is_alive(workers, 100.0)
    assert all(is_alive(workers, 100.0 + 60 * n, beat, is_old=True) for n, beat in enumerate(beats, 1))


def test_a_worker_is_dead_once_its_heartbeat_stays_the_same_whatever_the_clock_says() -> None:
    workers = LiveWorkers()

    assert [is_alive(workers, at) for at in (100.0, 105.0, 100.0 + STALE_SECONDS)] == [True, True, False]


def test_a_worker_whose_heartbeat_is_far_from_the_clock_lives_only_once_it_beats() -> None:
    workers = LiveWorkers()

    assert not is_alive(workers, 100.0, is_old=True)
    assert is_alive(workers, 105.0, BEAT + timedelta(seconds=5), is_old=True)


async def test_a_message_without_a_job_is_queued_again_although_the_clock_was_set_back(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        accepted = await parley.accept("hello")
        await parley.sql("DELETE FROM jobs")
        await parley.sql("UPDATE inbox SET created_at = created_at + interval '1 hour'")
    async with open_parley(settings, address, model) as parley, asyncio.timeout(30):
        assert (await parley.app.events.response(accepted.inbox_id)).error is None


async def test_a_mark_of_a_listener_that_died_before_the_clock_was_set_back_is_not_held(parley: Parley) -> None:
    checkpoint = Checkpoint(parley.app.database, "test", "token")
    await checkpoint.find_gap()
    await checkpoint.note(BEAT)
    assert await checkpoint.find_gap() is None
    await parley.sql("UPDATE shards SET leased_until = leased_until + interval '1 hour'")

    assert await checkpoint.find_gap() is not None


async def test_requests_to_discord_go_on_when_the_clock_was_set_back(parley: Parley) -> None:
    limiter = RateLimiter(parley.app.database, "token")
    await limiter.wait()
    await parley.sql("UPDATE bots SET next_request_at = next_request_at + interval '1 hour'")

    assert await limiter.is_free()
    assert await limiter.has_spare()
    await parley.sql("UPDATE bots SET next_request_at = next_request_at + interval '1 hour'")
    async with asyncio.timeout(PATIENCE):
        await limiter.wait()


async def test_requests_in_the_background_wait_while_others_wait_for_their_slots(parley: Parley) -> None:
    limiter = RateLimiter(parley.app.database, "token")
    await limiter.wait()
    await parley.sql("UPDATE bots SET next_request_at = now() + interval '1 minute'")
    assert not await limiter.is_free()
    lull = asyncio.create_task(limiter.wait_for_lull())
    assert not await limiter.has_spare()
    assert not lull.done()
    await parley.sql("UPDATE bots SET next_request_at = now() - interval '1 minute'")

    await lull

    # The background has taken no slot of its own yet.
    assert await limiter.has_spare()
