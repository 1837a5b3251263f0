"""Who forgets, deletes or erases locks in the order of whoever works for the person: nobody waits in a circle."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agent.personal_data.erasure import erase, request_erasure
from agent.queue.redaction import redact
from shared.db.database import Address
from tests.standins.openai_api.script import gated_answer
from tests.support.connections import connected
from tests.support.parley import Parley

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
SCOPE, MEMORY = "SELECT FROM memory_scopes FOR UPDATE", "UPDATE memories SET confidence = 1"
TURN, MESSAGE = "UPDATE turns SET iterations = iterations", "UPDATE inbox SET status = status"
REMEMBERED = (
    "INSERT INTO memories (user_id, turn_id, conversation_id, content) "
    "SELECT user_id, id, conversation_id, 'tea' FROM turns RETURNING id"
)
CONVERSATION = "SELECT FROM conversations FOR NO KEY UPDATE"


async def forget(parley: Parley) -> None:
    await parley.sql("SELECT parley_forget_all(id) FROM users")


async def delete(parley: Parley) -> None:
    assert await redact(parley.app.database, parley.app.files.storage, platform="test", message_ids=["e1"]) == 1


async def erase_person(parley: Parley) -> None:
    user_id = await parley.value("SELECT id FROM users")
    async with parley.app.database.transaction() as session:
        erasure_id = await request_erasure(session, user_id)
    assert erasure_id is not None
    await erase(parley.app.database, parley.app.files.storage, erasure_id)


@pytest.mark.parametrize(
    ("act", "first", "second"),
    [
        # As whoever makes the next turn recallable, ends the turn of this message, stores facts of its conversation.
        pytest.param(forget, SCOPE, MEMORY, id="forget"),
        pytest.param(delete, TURN, MESSAGE, id="delete"),
        pytest.param(erase_person, CONVERSATION, SCOPE, id="erase"),
    ],
)
async def test_whoever_works_for_a_person_goes_on(
    parley: Parley, address: Address, act: Callable[[Parley], Awaitable[None]], first: str, second: str
) -> None:
    go, answer = gated_answer("Noted.")
    parley.model.play(answer)
    accepted = await parley.accept("my secret tea", event_id="e1")
    async with connected(address) as other, asyncio.timeout(60):
        # The turn begins in a moment.
        while not await other.fetchval(REMEMBERED):  # noqa: ASYNC110  # the database tells nobody
            await asyncio.sleep(0.02)
        async with other.transaction():
            await other.execute(first)
            acting = asyncio.ensure_future(act(parley))
            while not await other.fetchval(WAITING):  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.02)
            await other.execute(second)
        await acting
        go.set()
        await parley.app.events.response(accepted.inbox_id)

    assert await parley.value("SELECT count(*) FROM messages WHERE content LIKE '%tea%'") == (act is forget)
