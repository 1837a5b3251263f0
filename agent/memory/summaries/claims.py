"""Which conversation is summarised next, by whom, and what becomes of it: one worker at a time, by a lease.

A worker that dies loses its lease, and another one begins again from the transcript. Whatever a worker writes after its
lease has ended, or after a summary was withdrawn, is not stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from agent.people.billing.budget import PaidCall, to_json
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Place

statements = load_statements(__file__)

MAX_ERROR_CHARS = 500


class Claim(Struct, frozen=True):
    """A conversation that this worker summarises until `lease`, with the summary it has.

    `is_wanted` is False when people are still talking. `user_id` is whose turns are summarised in a direct
    conversation, `done_turn_id` the last one that is done. `error` is why the last attempt failed. `tokens_held` is
    what a worker held that died during its model call.
    """

    id: int
    place: Place
    user_id: int | None
    summary: str | None
    done_turn_id: int
    lease: datetime
    last_active_at: datetime
    error: str | None
    is_wanted: bool
    tokens_held: int = 0

    @property
    def key(self) -> dict[str, Any]:
        """Return the parameters that find the conversation as long as the lease is ours."""
        return {"id": self.id, "lease": self.lease}


class NewSummary(Struct, frozen=True):
    """A summary of what was said up to `last_turn_id`; `model` is None when it was extracted."""

    content: str
    last_turn_id: int
    model: str | None
    has_more: bool = False


async def claim(session: Session, limit: int) -> list[Claim]:
    """Claim up to `limit` conversations that are due."""
    rows = (await session.execute(statements.claim_summaries, {"limit": limit})).all()
    return to_claims(rows)


def to_claims(rows: Iterable[Any]) -> list[Claim]:
    """Return the claims of rows that `parley_claim_conversations` has returned."""
    return [Claim(row[0], Place(*row[1:6]), *row[6:]) for row in rows]


async def work_on(claimed: Iterable[Claim], work: Callable[[Claim], Awaitable[None]]) -> None:
    """Do the work for all claims at once; raises what one of them raised when all are done.

    That one is claimed again when its lease has expired.
    """
    results = await asyncio.gather(*(work(claim) for claim in claimed), return_exceptions=True)
    for error in results:
        if isinstance(error, BaseException):
            raise error


async def lock_turns(session: Session, turn_ids: Sequence[int]) -> None:
    """Keep these turns from being erased; before what locks the conversation, such as `pay`."""
    if turn_ids:
        await session.execute(statements.lock_turns, {"turn_ids": list(turn_ids)})


async def store(session: Session, claimed: Claim, new: NewSummary) -> bool:
    """Store the summary and end the claim; returns False, without a change, when the lease has been lost."""
    parameters = claimed.key | {
        "content": new.content,
        "last_turn_id": new.last_turn_id,
        "model": new.model,
        "has_more": new.has_more,
        "last_active_at": claimed.last_active_at,
    }
    return bool((await session.execute(statements.store_summary, parameters)).one().is_stored)


async def close(session: Session, claimed: Claim) -> None:
    """End the claim of a conversation in which there is nothing to summarise."""
    await session.execute(statements.end_claim, claimed.key | {"last_active_at": claimed.last_active_at})


async def postpone(session: Session, claimed: Claim) -> None:
    """End the claim until the next pause."""
    await session.execute(statements.end_claim, claimed.key | {"last_active_at": None})


async def fail(session: Session, claimed: Claim, error: str) -> None:
    """End the claim and note why there is no summary; the next attempt waits twice as long as the one before."""
    await session.execute(statements.fail_summary, claimed.key | {"error": error[:MAX_ERROR_CHARS]})


async def hold(session: Session, claimed: Claim, tokens: int, *, cost: float | None) -> bool:
    """Hold tokens and US dollars for a model call; returns False when a limit refuses it or the lease is lost."""
    parameters = claimed.key | {"calls": "[]", "hold": tokens, "cost": cost}
    return bool((await session.execute(statements.charge_summary, parameters)).one().admitted)


async def pay(session: Session, claimed: Claim, calls: Sequence[PaidCall]) -> None:
    """Write model calls to the ledger, and give back what is held; needs a transaction.

    A worker that was frozen until its lease was lost writes nothing: who claims the conversation after it charges the
    call as an estimate, and a call is paid once.
    """
    if not (await session.execute(statements.lock_claim, claimed.key)).all():
        return
    await session.execute(
        statements.charge_summary, claimed.key | {"calls": to_json(calls), "hold": None, "cost": None}
    )


async def forget_summaries(session: Session, turn_ids: Iterable[int | None]) -> None:
    """Withdraw the summaries made of these turns, whose text has changed, and ask for new ones at once."""
    ids = [turn_id_ for turn_id_ in turn_ids if turn_id_ is not None]
    if ids:
        await session.execute(statements.forget_summaries, {"turn_ids": ids})
