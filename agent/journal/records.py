"""Records the steps of a running turn and pays for its model calls, each by one function of the database.

A function applies all or nothing, and rejects the writes of a worker whose turn another worker has taken over. A model
answer takes one row for its text and one per tool call. The positions after them are reserved for the results, in the
order of the calls, whichever call finishes first.
"""

from collections.abc import Sequence

from msgspec import Struct

from agent.journal.steps import Entry, TurnKey
from agent.people.billing.budget import Admission, PaidCall, Payment, to_admission
from agent.people.participants import Rights, to_rights
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import Superseded

statements = load_statements(__file__)


class Recorded(Struct, frozen=True):
    """The result of `record`; `admission` is set when calls were paid and the next model call was reserved.

    `rights` are those of the turn's user now, for the calls that were recorded.
    """

    stop_requested: bool
    rights: Rights
    admission: Admission | None = None


async def record(session: Session, key: TurnKey, entry: Entry, *, payment: Payment | None = None) -> Recorded:
    """Record steps and events; with a payment, also pay for the finished model calls and reserve the next one.

    Raises `Superseded` when another attempt has taken over the turn.
    """
    parameters = {"turn_id": key.id, "attempt": key.attempt} | entry.to_parameters()
    if payment is None:
        row = (await session.execute(statements.record_steps, parameters)).one_or_none()
    else:
        row = (await session.execute(statements.record_and_settle, parameters | payment.to_parameters())).one_or_none()
    if row is None:
        raise Superseded
    return Recorded(row.stop_requested, to_rights(row), None if payment is None else to_admission(row))


async def pay(session: Session, key: TurnKey, payment: Payment) -> Admission:
    """Pay for model calls without a usable answer, and reserve tokens for the retry.

    Raises `Superseded` when another attempt has taken over the turn.
    """
    parameters = {"turn_id": key.id, "attempt": key.attempt} | payment.to_parameters()
    row = (await session.execute(statements.settle_calls, parameters)).one_or_none()
    if row is None:
        raise Superseded
    return to_admission(row)


async def settle(session: Session, key: TurnKey, calls: Sequence[PaidCall]) -> None:
    """Pay for calls without a step and release the turn's reservation; no effect when another attempt runs the turn."""
    parameters = {"turn_id": key.id, "attempt": key.attempt} | Payment(calls).to_parameters()
    await session.execute(statements.settle_calls, parameters)


async def keep_full_results(session: Session, key: TurnKey, results: Sequence[tuple[int, str]]) -> None:
    """Keep these results (JSON) of a running turn by the positions of their steps; a repeated call replaces them."""
    seqs, contents = [seq for seq, _ in results], [content for _, content in results]
    parameters = {"turn_id": key.id, "attempt": key.attempt, "seqs": seqs, "contents": contents}
    await session.execute(statements.store_full_results, parameters)
