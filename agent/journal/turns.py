"""Opens, records and closes turns in the database, each by one function of the database that applies all or nothing.

Writes of a worker whose turn another worker has taken over are rejected. A model answer takes one row for its text and
one per tool call. The positions after them are reserved for the results, in the order of the calls, whichever call
finishes first.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import text

from agent.billing.budget import Admission, PaidCall, Payment, Reservation, to_admission, to_json
from agent.journal.steps import Event, Step, TurnKey
from agent.people.rights import RIGHTS, Rights, to_rights
from shared.db.driver import Session
from shared.errors import Superseded
from shared.messages import Place, ReplyFile
from shared.text import clean_json

RECORD = text(f"""
SELECT stop_requested, rights.* FROM parley_record_v3(
    p_turn_id => :turn_id, p_attempt => :attempt, p_steps => :steps, p_events => :events, p_note => :note
), ({RIGHTS}) AS rights
""")


RECORD_AND_SETTLE = text(f"""
SELECT * FROM parley_record_v3(
    p_turn_id => :turn_id, p_attempt => :attempt, p_steps => :steps, p_events => :events, p_note => :note,
    p_calls => :calls, p_reserve => :reserve, p_cost => CAST(:cost AS numeric), p_seconds => :seconds
), ({RIGHTS}) AS rights
""")


SETTLE = text("""
SELECT * FROM parley_settle_v3(
    p_turn_id => :turn_id, p_attempt => :attempt, p_calls => :calls, p_reserve => :reserve,
    p_cost => CAST(:cost AS numeric), p_seconds => :seconds
)
""")


@dataclass(frozen=True, slots=True)
class Entry:
    """The data of one write: steps, events for clients that follow the turn, and the notification about them.

    `reasons`: what the prompt was made of and what was decided on the way, stored at the end of the turn.
    """

    steps: Sequence[Step] = ()
    events: Sequence[Event] = ()
    note: str = ""
    reasons: Mapping[str, Any] | None = None

    def to_parameters(self) -> dict[str, Any]:
        """Convert the entry to the parameters of the database functions."""
        events = [{"seq": event.seq, "name": event.name, "payload": event.payload} for event in self.events]
        return {
            "steps": json.dumps(clean_json([step.to_row() for step in self.steps])),
            "events": json.dumps(clean_json(events)),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Recorded:
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
    given = {"turn_id": key.id, "attempt": key.attempt} | entry.to_parameters()
    if payment is None:
        row = (await session.execute(RECORD, given)).one_or_none()
    else:
        row = (await session.execute(RECORD_AND_SETTLE, given | payment.to_parameters())).one_or_none()
    if row is None:
        raise Superseded
    return Recorded(row.stop_requested, to_rights(row), None if payment is None else to_admission(row))


async def pay(session: Session, key: TurnKey, payment: Payment) -> Admission:
    """Pay for model calls without a usable answer, and reserve tokens for the retry.

    Raises `Superseded` when another attempt has taken over the turn.
    """
    given = {"turn_id": key.id, "attempt": key.attempt} | payment.to_parameters()
    row = (await session.execute(SETTLE, given)).one_or_none()
    if row is None:
        raise Superseded
    return to_admission(row)


async def settle(session: Session, key: TurnKey, calls: Sequence[PaidCall]) -> None:
    """Pay for calls without a step and release the turn's reservation; no effect when another attempt runs the turn."""
    given = {"turn_id": key.id, "attempt": key.attempt} | Payment(calls).to_parameters()
    await session.execute(SETTLE, given)


Status = Literal["answered", "refused", "failed", "cancelled"]

BEGIN = text("""
SELECT * FROM parley_open_turn_v4(
    p_job_id => :job_id, p_inbox_ids => :inbox_ids, p_turn_id => :turn_id, p_conversation_id => :conversation_id,
    p_user_id => :user_id, p_persona_id => :persona_id, p_loop_mode => :loop_mode,
    p_steps => :steps, p_events => :events, p_note => :note, p_tokens => :tokens, p_cost => CAST(:cost AS numeric),
    p_seconds => :seconds, p_persona_version_id => :persona_version_id
)
""")
END = text("""
SELECT * FROM parley_close_turn_v3(
    p_turn_id => :turn_id, p_attempt => :attempt, p_status => :status, p_finished => :finished, p_waves => :waves,
    p_error => :error, p_cause => :cause, p_steps => :steps, p_events => :events, p_note => :note, p_calls => :calls,
    p_reply => :reply, p_question => :question
)
""")

# In the statement that ends the turn, so that a turn has none more.
NOTED = """
WITH ending AS (
    SELECT id FROM turns WHERE id = :turn_id AND attempt = :attempt AND status = 'running'
), noted AS (
    INSERT INTO turn_contexts (turn_id, reasons)
    SELECT id, jsonb_set(CAST(:reasons AS jsonb), '{budget,limits}', coalesce(parley_turn_limits_v1(id), '[]'))
    FROM ending WHERE CAST(:reasons AS jsonb) IS NOT NULL
    ON CONFLICT (turn_id) DO UPDATE SET reasons = excluded.reasons
)
"""
END_AND_NOTE = text(f"{NOTED}{END.text}")
# The end of a message's turn, which is remembered.
END_AND_REMEMBER = text(f"""
{NOTED}, listed AS (
    INSERT INTO unremembered_turns (turn_id) SELECT id FROM ending ON CONFLICT DO NOTHING
)
{END.text}
""")


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A new turn for the inbox rows `inbox_ids`, with what it reserves for its first call."""

    job_id: int
    inbox_ids: Sequence[int]
    conversation_id: int
    persona_id: int | None
    persona_version_id: int | None
    loop_mode: str
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ends; `calls` are the model calls that are still unpaid."""

    status: Status
    finished: bool
    waves: int
    error: str | None
    cause: str | None
    calls: Sequence[PaidCall]


@dataclass(frozen=True, slots=True)
class NewReply:
    """The reply that a turn ends with.

    `claimed_seconds` is how long this worker claims the reply for delivery; None when the caller of the turn reads it
    from the database, so that the commit delivers it.
    """

    adapter: str
    place: Place
    reply_to: str | None
    content: str
    files: tuple[ReplyFile, ...]
    choices: tuple[str, ...]
    claimed_seconds: float | None

    def to_json(self) -> str:
        """Convert the reply to the JSON that `parley_close_turn_v3` expects."""
        place = self.place
        row = {
            "door": self.adapter,
            "platform": place.platform,
            "server": place.server,
            "channel": place.channel,
            "thread": place.thread,
            "is_direct": place.is_direct,
            "reply_to": self.reply_to,
            "content": self.content,
            "files": [asdict(each) for each in self.files],
            "choices": list(self.choices),
            "status": "delivered" if self.claimed_seconds is None else "claimed",
            "lease": self.claimed_seconds,
        }
        return json.dumps(clean_json(row))


@dataclass(frozen=True, slots=True)
class NewQuestion:
    """A new row of `confirmations`: the request for approval that a turn ends with."""

    id: int
    call_id: str
    tool: str
    arguments: str
    arguments_hash: str
    question: str
    reason: str
    agent: str | None
    approver_level: str | None


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """The id of the stored reply (0 without one), and the platform's id of the live message, if there is one."""

    reply_id: int
    live_message_id: str | None


async def begin_turn(session: Session, new: NewTurn, entry: Entry) -> Admission | None:
    """Open a turn with its first steps, and reserve tokens for its first model call.

    Returns None, without any change, when a message has been cancelled or another worker has claimed the job since
    they were read.
    """
    values = {name: getattr(new, name) for name in NewTurn.__slots__} | asdict(new.reservation)
    given = values | entry.to_parameters() | {"inbox_ids": list(new.inbox_ids)}
    row = (await session.execute(BEGIN, given)).one_or_none()
    return None if row is None else to_admission(row)


async def end_turn(
    session: Session,
    key: TurnKey,
    entry: Entry,
    *,
    ending: Ending,
    reply: NewReply | None = None,
    question: NewQuestion | None = None,
) -> EndedTurn:
    """Close a turn: store its last step, payment, reply and question, and mark its inbox rows as finished.

    A child turn has no reply: the parent turn reads its answer. Raises `Superseded` when another attempt has taken
    over the turn: nothing is written, and nothing may be sent.
    """
    given = entry.to_parameters() | {
        "turn_id": key.id,
        "attempt": key.attempt,
        "status": ending.status,
        "finished": ending.finished,
        "waves": ending.waves,
        "error": ending.error,
        "cause": ending.cause,
        "calls": to_json(ending.calls),
        "reply": reply.to_json() if reply else None,
        "question": json.dumps(asdict(question)) if question else None,
    }
    given["reasons"] = None if entry.reasons is None else json.dumps(clean_json(dict(entry.reasons)))
    statement = END_AND_NOTE if reply is None else END_AND_REMEMBER
    row = (await session.execute(statement, given)).one_or_none()
    if row is None:
        raise Superseded
    return EndedTurn(row.reply_id or 0, row.live_message_id)
