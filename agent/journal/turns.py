"""Opens and closes turns in the database, each with one database function that applies all changes atomically."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from sqlalchemy import text

from agent.billing.budget import Admission, to_admission
from agent.billing.ledger import PaidCall, to_json
from agent.journal.records import Entry
from agent.journal.steps import TurnKey
from shared.db.driver import Session
from shared.errors import Superseded
from shared.messages import Place, ReplyFile
from shared.text import clean_json

Status = Literal["answered", "refused", "failed", "cancelled"]

BEGIN = text("""
SELECT * FROM parley_open_turn_v2(
    p_job_id => :job_id, p_inbox_ids => :inbox_ids, p_turn_id => :turn_id, p_conversation_id => :conversation_id,
    p_user_id => :user_id, p_persona_id => :persona_id, p_loop_mode => :loop_mode,
    p_steps => :steps, p_events => :events, p_note => :note, p_tokens => :tokens, p_seconds => :seconds
)
""")
END = text("""
SELECT * FROM parley_close_turn_v1(
    p_turn_id => :turn_id, p_attempt => :attempt, p_status => :status, p_finished => :finished, p_waves => :waves,
    p_error => :error, p_cause => :cause, p_steps => :steps, p_events => :events, p_note => :note, p_calls => :calls,
    p_reply => :reply, p_question => :question
)
""")


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A new turn for the inbox rows `inbox_ids`; reserves `tokens` for its first model call, for at most `seconds`."""

    turn_id: int
    job_id: int
    inbox_ids: Sequence[int]
    conversation_id: int
    user_id: int
    persona_id: int | None
    loop_mode: str
    tokens: int
    seconds: float


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
        """Convert the reply to the JSON that `parley_close_turn_v1` expects."""
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
    values = {name: getattr(new, name) for name in NewTurn.__slots__}
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
    row = (await session.execute(END, given)).one_or_none()
    if row is None:
        raise Superseded
    return EndedTurn(row.reply_id or 0, row.live_message_id)
