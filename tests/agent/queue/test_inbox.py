"""The inbox: one way in, for one event or many."""

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from agent.queue.inbox import accept_answered, to_event
from shared.db.database import Address
from shared.errors import EventIdInUse
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.parley import Parley, message, open_parley

# What no worker could read, in an event that is whole otherwise.
NONSENSE: Sequence[dict[str, Any]] = (
    {"attachments": 5},
    {"attachments": [{"filename": "a.txt"}, 5]},
    {"attachments": None},
    {"platform_context": [1]},
    {"decision": [1]},
    {"due_job": "job"},
    {"credentials": 1},
    {"request": []},
    {"place_key": None},
    {"sent_at": "soon"},
    {"again_of": 2**70},
)


async def test_events_that_come_together_are_stored_once_each_and_nobody_gets_another_s_answer(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        before = await parley.app.inbox.accept(message("before", event_id="1"))
        events = [
            message("before", event_id="1"),
            message("new", event_id="2"),
            message("new", event_id="2"),
            message("mine", event_id="2", user="bob"),
            message("theirs", event_id="1", user="bob"),
            replace(message("late", event_id="3"), sent_at=None),
        ]
        # The first is stored alone, while the others come.
        first = asyncio.create_task(parley.app.inbox.accept(message("first", event_id="0")))
        results: list[Any] = await asyncio.gather(*map(parley.app.inbox.accept, events), return_exceptions=True)
        await first
        again, new, same, *others = results

        assert (again.inbox_id, again.is_new) == (before.inbox_id, False)
        assert (new.is_new, same.is_new, same.inbox_id) == (True, False, new.inbox_id)
        assert [type(other) for other in others[:2]] == [EventIdInUse, EventIdInUse]
        assert others[2].is_new
        assert await parley.value("SELECT array_agg(content ORDER BY platform_event_id) FROM inbox") == [
            "first", "before", "new", "late",
        ]  # fmt: skip
        # One job for the place of each person.
        assert await parley.value("SELECT count(*) FROM jobs") == 1


async def test_an_event_that_needs_no_turn_is_stored_without_its_text_and_queues_none(
    settings: Settings, address: Address, model: OpenAIStub
) -> None:
    async with open_parley(settings, address, model, works=False) as parley:
        event = message("/memory forget about boats", event_id="1")

        for is_first in (True, False):
            async with parley.app.database.transaction() as session:
                assert await accept_answered(session, event) is is_first
        assert await parley.sql("SELECT content, status FROM inbox") == [("", "answered")]
        assert await parley.value("SELECT count(*) FROM jobs") == 0
        # The same event as a message is a duplicate, too.
        assert not (await parley.app.inbox.accept(event)).is_new


@pytest.mark.parametrize("sent_at", ["2026-05-01T10:00:00+02:00", None])
async def test_the_platform_s_time_is_stored_exactly(
    settings: Settings, address: Address, model: OpenAIStub, sent_at: str | None
) -> None:
    moment = datetime.fromisoformat(sent_at).replace(microsecond=123456) if sent_at else None
    async with open_parley(settings, address, model, works=False) as parley:
        await parley.app.inbox.accept(replace(message("hello"), sent_at=moment))

        stored_at = await parley.value("SELECT sent_at FROM inbox")
        assert stored_at == moment if moment else stored_at is not None


# As many questions as there are events.
@pytest.mark.settings(default_guest_token_budget=1_000_000)
async def test_an_event_that_no_worker_could_read_is_refused_before_it_fails_others(
    parley: Parley, owner: asyncpg.Connection, subtests: pytest.Subtests
) -> None:
    for nonsense in NONSENSE:
        with subtests.test(str(nonsense)):
            event_id = f"bad {nonsense}"
            event = to_event(message("hello", event_id=event_id))
            with pytest.raises((asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)):
                await owner.fetch("SELECT * FROM parley_accept($1)", json.dumps([event | nonsense]))

            assert (await parley.ask("hello", event_id=event_id)).error is None
