"""Edits of accepted messages by their authors; deleted messages are removed by `redaction.py`."""

import asyncio
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from agent.memory.deletion import DELETED, forget_turns
from agent.memory.summaries.claims import forget_summaries
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.text import without_credential

statements = load_statements(__file__)

SENT_WITHIN_SECONDS = 10


class Edited(Struct, frozen=True):
    """An accepted message that was edited. `turn_id`: the turn that began with the old text; None if there is none."""

    turn_id: int | None


async def change_message(
    database: Database, platform: str, message_id: str, content: str, *, others: Collection[str] = ()
) -> Edited | None:
    """Replace the text of an accepted message, unless it came by one of `others`; None if it never did."""
    content = without_credential(content)
    parameters = {"platform": platform, "message_id": message_id, "content": content, "others": list(others)}
    parameters["deleted"] = DELETED
    async with database.transaction() as session:
        await lock_turns(session, platform, [message_id])
        row = (await session.execute(statements.change_message, parameters)).one_or_none()
        if row is not None and row.turn_id is not None:
            await session.execute(statements.withdraw_questions, {"turn_ids": [row.turn_id]})
            # Memories and summaries are made from the edited text. Summaries first: it waits for a worker that writes
            # one just now, whose facts are then seen.
            await forget_summaries(session, [row.turn_id])
            await forget_turns(session, platform=platform, message_ids=[message_id], turn_ids=[row.turn_id])
    return None if row is None else Edited(row.turn_id)


async def lock_turns(session: Session, platform: str, message_ids: Collection[str]) -> None:
    """Lock what waits of these messages, then the turns of the others: before the messages, as whoever ends a turn."""
    parameters = {"platform": platform, "message_ids": list(message_ids)}
    ids = [row.id for row in (await session.execute(statements.find_messages, parameters)).all()]
    await session.execute(statements.lock_waiting, {"ids": ids})
    await session.execute(statements.lock_turns, {"ids": ids})


async def find_answer(database: Database, turn_id: int) -> Any:
    """Return the outbox row of a turn's delivered answer.

    None if there is none yet: an answer that is delivered later takes the edit into account.
    """
    # An answer that is being sent right now may have been built before the edit: wait until it is sent.
    for _ in range(SENT_WITHIN_SECONDS):
        async with database.statement() as session:
            answer = (await session.execute(statements.find_answer, {"turn_id": turn_id})).one_or_none()
        if answer is None or not answer.is_on_its_way:
            break
        await asyncio.sleep(1)
    return None if answer is None or answer.platform_message_id is None else answer
