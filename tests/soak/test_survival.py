"""Workers are killed and Postgres is crashed repeatedly under load: every message is answered exactly once."""

import asyncio
import random
import resource
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from adapters.tables import update_tables
from shared.clock import SystemClock
from shared.db.database import Address
from shared.db.embedded.server import start_postgres
from shared.settings import Settings
from tests.crash.stage import Stage, WorkerAtWork, open_stage
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import run_as_owner
from tests.support.databases import Databases
from tests.support.parley import message, open_parley
from tests.support.recovery import answer_of, control

pytestmark = pytest.mark.soak
SECONDS = 180
PLACES = 20
# Workers that were frozen work on when they wake; with more of them than this the server has no connections left.
MOST_WOKEN = 2
MEGABYTE = 1024 * 1024


def memory_used() -> int:
    """Return the bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def test_workers_are_killed_and_frozen_at_random_for_minutes(stages: Databases, tmp_path: Path) -> None:
    chance = random.Random(2026)  # noqa: S311  # the same faults in each run
    clock = SystemClock()
    async with open_stage(stages, tmp_path) as stage:
        end = clock.monotonic() + SECONDS
        steady = asyncio.create_task(write_until(stage, clock, end))
        frozen: list[WorkerAtWork] = []
        woken: list[WorkerAtWork] = []
        while clock.monotonic() < end:
            worker = await stage.worker(f"worker-{uuid4().hex[:8]}")
            # At the end nobody writes any more, and a worker may have nothing left to do.
            await worker.until_points(chance.randrange(5, 60), seconds=end - clock.monotonic())
            if chance.random() < 0.3 and len(frozen) < 2:
                worker.signal(signal.SIGSTOP)
                frozen.append(worker)
            else:
                worker.signal(signal.SIGKILL)
            if frozen and chance.random() < 0.5:
                woken.append(frozen.pop())
                woken[-1].signal(signal.SIGCONT)
            if len(woken) > MOST_WOKEN:
                woken.pop(0).signal(signal.SIGKILL)
        for worker in frozen:
            worker.signal(signal.SIGCONT)
        await stage.worker("last")
        count = await steady
        await stage.until_delivered(count)

        assert await stage.value("SELECT count(*) FROM stage_posts") == count
        assert await stage.rows("SELECT call_id FROM stage_effects GROUP BY 1 HAVING count(*) > 1") == []
        assert await stage.rows("SELECT status FROM inbox WHERE status NOT IN ('answered', 'failed')") == []
        assert await stage.rows("SELECT id FROM users WHERE tokens_reserved <> 0") == []


async def write_until(stage: Stage, clock: SystemClock, end: float) -> int:
    """Send to many places, each message after the answer to the previous one; return the number of turns."""

    async def write(number: int) -> None:
        while clock.monotonic() < end:
            # An answer may have to wait until several dead workers in a row are detected.
            # One person's budget would be used up by all these turns, and the last ones wait for it.
            parameters = {"user": f"user-{number}", "channel": f"c{number}"}
            await stage.answer(await stage.accepts(f"room-{number}: note this", **parameters))

    await asyncio.gather(*(write(number) for number in range(PLACES)))
    count: int = await stage.value("SELECT count(*) FROM turns")
    return count


@pytest.fixture(scope="module")
def own_home() -> Iterator[Path]:
    """The folder of a Postgres that may be crashed."""
    with tempfile.TemporaryDirectory(prefix="parley-soak-", ignore_cleanup_errors=True) as folder:
        start_postgres(Path(folder))
        yield Path(folder)
        asyncio.run(control(Path(folder), "stop", "immediate"))


async def test_postgres_is_crashed_again_and_again_under_load(
    own_home: Path, settings: Settings, model: OpenAIStub
) -> None:
    server = Address(start_postgres(own_home), is_embedded=True)
    await run_as_owner(server, "CREATE DATABASE soak")
    address = Address(server.url.set(database="soak"), is_embedded=True)
    await update_tables(address)
    free = settings.model_copy(update={"default_guest_token_budget": 10**9})
    async with open_parley(free, address, model) as parley:
        # The import of the models' library takes more than a minute beside other work.
        await parley.app.models.router.warm()
        count = 0
        for mode in ["immediate", "fast"] * 10:
            events = [message(f"hello {count + n}", channel=f"c{n}", adapter="fake") for n in range(PLACES)]
            count += PLACES
            tasks = [asyncio.create_task(answer_of(parley, event)) for event in events]
            await model.until(count - PLACES // 2)
            await control(own_home, "restart", mode)
            assert [error for error, _ in await asyncio.gather(*tasks)] == [None] * PLACES
        posts = await parley.platform.wait_for(count)

    assert max(Counter(posts).values()) == 1


async def test_thousands_of_turns_leave_nothing_behind_in_memory(settings: Settings, address: Address) -> None:
    # The fixture's stand-in keeps every request.
    async with OpenAIStub(keep=10) as model:
        overrides = {"default_guest_token_budget": 10**9, "openai_base_url": model.base_url}
        await remember_nothing(settings.model_copy(update=overrides), address, model)


async def remember_nothing(settings: Settings, address: Address, model: OpenAIStub) -> None:
    """Run two thousand turns and return the growth of memory after the first five hundred."""
    async with open_parley(settings, address, model) as parley:

        async def write(place: int, turns: int) -> None:
            for number in range(turns):
                await parley.ask(f"hello {number}", channel=f"c{place}", user=f"u{place}")

        await asyncio.gather(*(write(place, 10) for place in range(50)))
        before = memory_used()
        await asyncio.gather(*(write(place, 30) for place in range(50)))

        assert memory_used() - before < 60 * MEGABYTE
        assert parley.app.events._queues == {}
