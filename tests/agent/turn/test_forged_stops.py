"""Every role may notify the channel of stops: such notes stop no turn, and however many there are, nobody waits."""

import asyncio

import asyncpg
import pytest

from agent.turn.running import Cancellations
from shared.errors import Stopped
from tests.support.parley import Parley

FORGED = 20_000


async def test_a_note_stops_no_turn_that_has_only_got_its_id(parley: Parley, owner: asyncpg.Connection) -> None:
    is_heard = asyncio.Event()
    parley.app.events.on_cancellation(lambda *_stop: is_heard.set())
    turn_id = await owner.fetchval("SELECT nextval(pg_get_serial_sequence('turns', 'id'))")
    await owner.execute("SELECT pg_notify('parley_stops', $1)", str(turn_id))
    await asyncio.wait_for(is_heard.wait(), 30)
    await owner.execute("SELECT setval(pg_get_serial_sequence('turns', 'id'), $1, false)", turn_id)

    reply = await parley.ask("hello")

    assert (reply.turn_id, reply.error) == (turn_id, None)


async def test_many_notes_are_looked_up_together(parley: Parley, owner: asyncpg.Connection) -> None:
    is_heard = asyncio.Event()
    parley.app.events.on_cancellation(lambda *_stop: is_heard.set())
    last = (await parley.ask("hello")).turn_id
    await parley.sql("UPDATE turns SET stop_requested = true")
    notes = "SELECT count(pg_notify('parley_stops', CAST(id AS text))) FROM generate_series($1::bigint, $2, -1) AS id"
    await owner.execute(notes, last + FORGED, last)
    most = 0
    async with asyncio.timeout(60):
        while not is_heard.is_set():
            most = max(most, len(asyncio.all_tasks()))
            await asyncio.sleep(0)

    assert most < FORGED / 10


@pytest.mark.parametrize("first", [0, 1])
async def test_an_attempt_that_leaves_late_takes_nothing_from_the_next_one(first: int) -> None:
    cancellations, ends = Cancellations(), [asyncio.Event(), asyncio.Event()]

    async def run(end: asyncio.Event) -> None:
        async with cancellations.watch(7):
            await end.wait()

    attempts = [asyncio.create_task(run(end)) for end in ends]
    await asyncio.sleep(0)
    ends[first].set()
    await attempts[first]

    cancellations.cancel(7, is_stored=True)
    if first == 0:
        with pytest.raises(Stopped):
            await attempts[1]
    ends[0].set()
    await attempts[0]
