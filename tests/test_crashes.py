"""A worker is killed or frozen at any point of a turn: nothing is lost, sent twice or done twice."""

import asyncio
import json
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shared.clock import SystemClock
from tests.crash.promises import Check, broken_at_each, every_turn, find_broken, list_deaths, of_the_ledger, rows_are
from tests.crash.stage import WAVE, Stage, open_stage, run_with_fault
from tests.support.databases import Databases

TRANSCRIPT = [
    (0, "user", None),
    (1, "assistant", None),
    (2, "tool_call", "stage.read"),
    (3, "tool_call", "stage.effect"),
    (4, "tool_result", "stage.read"),
    (5, "tool_result", "stage.effect"),
    (6, "assistant", None),
]


@dataclass(frozen=True)
class Scene:
    """The model's answers, and the SQL that an admin ran before."""

    answers: Sequence[Any] = tuple(WAVE)
    typed: str = "SELECT 1"


pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(900)]


async def list_points(stages: Databases, home: Path, last_tool: str, scene: Scene = Scene()) -> list[str]:
    """Run the turn once without a fault and return every point that it passes."""
    async with open_stage(stages, home) as stage:
        await stage.owner.execute(scene.typed)
        worker = await stage.worker("first", scene.answers, last_tool=last_tool)
        await stage.accepts("room: note this", attachments=[await stage.attachment()])
        await stage.until_delivered(1)
        await worker.stop()
        assert await find_faults(stage, replies=1) == []
        return [point for point in worker.points if point != "ready"]


async def play(
    stages: Databases, home: Path, point: str, action: str, last_tool: str, scene: Scene = Scene()
) -> list[str]:
    """Run the turn with a worker killed or frozen at a point, then with a second one; return the broken promises."""
    async with open_stage(stages, home) as stage:
        await stage.owner.execute(scene.typed)
        first = await stage.worker("first", scene.answers, at=point, action=action, last_tool=last_tool)
        inbox_id = await stage.accepts("room: note this", attachments=[await stage.attachment()])
        late = await run_with_fault(stage, first, scene.answers, inbox_id)
        return [f"{action} at {point}, {last_tool} last: {fault}" for fault in late + await find_faults(stage, 2)]


async def find_faults(stage: Stage, replies: int) -> list[str]:
    """Return every broken promise."""
    return await find_broken(stage, [*every_turn(), *_said(replies), *_effects(), *_transcript(), *_ends(replies)])


def _said(replies: int) -> Iterator[Check]:
    yield "replies", "SELECT content FROM stage_posts", rows_are(*[("It is done.",)] * replies)
    yield "ends announced", "SELECT count(*) FROM turn_events WHERE name = 'turn_complete'", rows_are((replies,))
    yield "overlaps", "SELECT * FROM stage_model_calls WHERE NOT is_alone", rows_are()


def _effects() -> Iterator[Check]:
    yield "reads", "SELECT count(*) FROM stage_reads", lambda rows: rows[0][0] >= 1
    yield "files", "SELECT status, filename FROM file_records", rows_are(("stored", "notes.txt"))


def _transcript() -> Iterator[Check]:
    first = "WHERE turn_id = (SELECT min(id) FROM turns)"
    steps = f"SELECT seq, role, tool_name FROM messages {first} ORDER BY seq"  # noqa: S608  # our own text
    yield "transcript", steps, rows_are(*TRANSCRIPT)
    results = f"SELECT content FROM messages {first} AND tool_name = 'stage.read' AND role = 'tool_result'"  # noqa: S608
    yield "result of the read", results, lambda rows: [json.loads(row[0]) for row in rows] == ["read done"]


def _ends(replies: int) -> Iterator[Check]:
    for table, status in (("turns", "answered"), ("inbox", "answered"), ("outbox", "delivered")):
        query = f"SELECT status, count(*) FROM {table} GROUP BY 1"  # noqa: S608  # our own names
        yield table, query, rows_are((status, replies))


@pytest.mark.parametrize("last_tool", ["read", "effect"])
@pytest.mark.parametrize("action", ["kill", "freeze"])
async def test_a_worker_may_be_killed_or_frozen_at_every_point_of_a_turn(
    stages: Databases, tmp_path: Path, action: str, last_tool: str
) -> None:
    points = await list_points(stages, tmp_path, last_tool)
    assert len(points) > 20
    if last_tool == "effect":
        # Only the order of the two tools differs then.
        points = points[points.index("effect before 1") : points.index("model before 2")]

    async def one(point: str) -> list[str]:
        return await play(stages, tmp_path, point, action, last_tool)

    assert await broken_at_each(list_deaths(points), one) == []


@pytest.mark.parametrize("point", ["model before 1", "send before 1"])
async def test_a_turn_of_a_killed_worker_is_answered_within_15_seconds(
    stages: Databases, tmp_path: Path, point: str
) -> None:
    clock = SystemClock()
    async with open_stage(stages, tmp_path) as stage:
        first = await stage.worker("first", at=point, action="hold")
        await stage.accepts("room: note this", attachments=[await stage.attachment()])
        await first.until(point)
        second = await stage.worker("second")
        first.signal(signal.SIGKILL)
        killed_at = clock.monotonic()
        await stage.until_delivered(1)

        assert clock.monotonic() - killed_at < 15
        # A reply that was ready may be sent before the job of the dead worker is taken over.
        while await stage.value("SELECT count(*) FROM jobs"):  # noqa: ASYNC110  # the database tells nobody
            await asyncio.sleep(0.05)
        await second.stop()
        assert await find_faults(stage, replies=1) == []


@pytest.mark.parametrize(
    ("point", "rows"),
    [
        ("model before 1", [True, False]),
        ("model after 1", [True, False]),
        ("model after 2", [False, True, False]),
        ("effect before 1", [False, False]),
    ],
    ids=["about to be asked", "answered", "answered a second time", "while a tool runs"],
)
async def test_the_call_of_a_killed_worker_is_on_the_ledger_as_an_estimate(
    stages: Databases, tmp_path: Path, point: str, rows: list[bool]
) -> None:
    answers = ["It is done."] if point.endswith("1") and "model" in point else WAVE
    async with open_stage(stages, tmp_path) as stage:
        first = await stage.worker("first", answers, at=point, action="kill")
        inbox_id = await stage.accepts("room: note this")
        await first.until_gone()
        await stage.age_the_dead()
        second = await stage.worker("second", answers)
        await stage.response(inbox_id)
        await second.stop()

        assert [row[0] for row in await stage.rows("SELECT is_estimated FROM token_logs ORDER BY id")] == rows
        assert await find_broken(stage, of_the_ledger()) == []


async def test_a_worker_that_wakes_up_leaves_the_turn_to_the_one_that_runs_it(
    stages: Databases, tmp_path: Path
) -> None:
    async with open_stage(stages, tmp_path) as stage:
        # It loses its connection in the transaction that begins the turn, and retries when it wakes up.
        first = await stage.worker("first", at="commit before 1", action="freeze")
        inbox_id = await stage.accepts("room: note this", attachments=[await stage.attachment()])
        await first.until("commit before 1")
        await stage.age_the_dead()
        second = await stage.worker("second", at="model after 1", action="hold")
        await second.until("model after 1")
        first.signal(signal.SIGCONT)
        await first.stop()

        assert await stage.rows("SELECT attempt, status FROM turns") == [(1, "running")]
        await second.end()
        await stage.age_the_dead()
        third = await stage.worker("third")
        assert (await stage.response(inbox_id)).content == "It is done."
        await stage.until_delivered(1)
        await third.stop()
        assert await find_faults(stage, replies=1) == []


async def test_a_stopping_worker_finishes_what_it_can_within_its_grace_period(
    stages: Databases, tmp_path: Path
) -> None:
    async with open_stage(stages, tmp_path) as stage:
        first = await stage.worker("first", [{"content": "It is done.", "delay": 1}])
        inbox_id = await stage.accepts("room: a slow one")
        await first.until("model before 1")
        await first.stop()

        assert (await stage.response(inbox_id)).content == "It is done."
        assert await stage.rows("SELECT attempt, handovers, status FROM turns") == [(1, 0, "answered")]
        assert await stage.rows("SELECT content FROM stage_posts") == [("It is done.",)]


async def test_a_stopping_worker_hands_over_what_it_cannot_finish(stages: Databases, tmp_path: Path) -> None:
    async with open_stage(stages, tmp_path) as stage:
        first = await stage.worker("first", grace=0.2, at="model before 1", action="hold")
        inbox_id = await stage.accepts("room: note this", attachments=[await stage.attachment()])
        await first.until("model before 1")
        await first.stop()
        handed_over = await stage.rows("SELECT attempt, handovers, status FROM turns")
        reservation = await stage.rows("SELECT tokens_reserved FROM users")
        reservations = await stage.rows("SELECT * FROM budget_reservations")
        # Another worker takes over before any heartbeat becomes stale.
        second = await stage.worker("second")

        assert (handed_over, reservation, reservations) == ([(1, 1, "running")], [(0,)], [])
        assert (await stage.response(inbox_id)).content == "It is done."
        await stage.until_delivered(1)
        await second.stop()
        assert await stage.rows("SELECT attempt, handovers, error FROM turns") == [(2, 1, None)]
        assert await find_faults(stage, replies=1) == []


async def test_workers_that_stop_one_after_the_other_park_nothing(stages: Databases, tmp_path: Path) -> None:
    async with open_stage(stages, tmp_path) as stage:
        inbox_id = await stage.accepts("room: note this", attachments=[await stage.attachment()])
        for number in range(5):
            worker = await stage.worker(f"worker-{number}", grace=0.1, at="model before 1", action="hold")
            await worker.until("model before 1")
            await worker.stop()
        await stage.worker("last")

        assert (await stage.response(inbox_id)).content == "It is done."
        assert await stage.rows("SELECT attempt, handovers FROM turns") == [(6, 5)]


async def test_a_message_that_kills_its_workers_is_parked_and_the_next_is_served(
    stages: Databases, tmp_path: Path
) -> None:
    async with open_stage(stages, tmp_path) as stage:
        inbox_id = await stage.accepts("room: a deadly one")
        # The first death may be another message's fault; then it runs alone.
        for number in range(4):
            worker = await stage.worker(f"worker-{number}", at="model before 1", action="kill")
            await worker.until_gone()
            await stage.age_the_dead()
        await stage.worker("last", ["It is done."])
        parked = await stage.response(inbox_id)

        assert parked.error == "parked"
        assert await stage.rows("SELECT status, attempt, cause FROM turns") == [
            ("failed", 5, "failed 3 times; last: the worker died")
        ]
        assert (await stage.response(await stage.accepts("room: a good one"))).content == "It is done."


async def test_two_workers_never_overlap_in_one_place(stages: Databases, tmp_path: Path) -> None:
    async with open_stage(stages, tmp_path) as stage:
        answers = [{"content": "It is done.", "delay": 0.2}]
        # With two turns at once, no worker can keep all three places.
        await asyncio.gather(*(stage.worker(name, answers, max_turns=2) for name in ("first", "second")))
        # A different sender each time, so that the messages are not coalesced into one turn.
        inbox_ids = [
            await stage.accepts(
                f"room-{number % 3}: hello", server="s", channel=f"room-{number % 3}", user=f"u{number}"
            )
            for number in range(24)
        ]
        await asyncio.gather(*map(stage.response, inbox_ids))

        calls = await stage.rows("SELECT place, worker, is_alone FROM stage_model_calls")
        assert len(calls) == 24
        assert {worker for _, worker, _ in calls} == {"first", "second"}
        assert [call for call in calls if not call[2]] == []
