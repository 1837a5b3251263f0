"""Where a turn begins and where it ends in the database: each one function there, all or nothing."""

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
SELECT * FROM parley_open_turn_v1(
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
    """A turn that begins, for the messages `inbox_ids`; `tokens` are held for its first call, for `seconds` at most."""

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
    """How a turn ends; `calls` are the model calls that are not paid yet."""

    status: Status
    finished: bool
    waves: int
    error: str | None
    cause: str | None
    calls: Sequence[PaidCall]


@dataclass(frozen=True, slots=True)
class NewReply:
    """The reply that a turn ends with; `claimed_seconds` None: its caller reads it, the commit is its delivery."""

    adapter: str
    place: Place
    reply_to: str | None
    content: str
    files: tuple[ReplyFile, ...]
    choices: tuple[str, ...]
    claimed_seconds: float | None

    def to_json(self) -> str:
        """Return the reply as `parley_close_turn_v1` reads it."""
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
    """The confirmation that a turn ends with."""

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
    """The id of the reply, 0 without one, and the platform's message that was edited so far."""

    reply_id: int
    live_message_id: str | None


async def begin_turn(session: Session, new: NewTurn, entry: Entry) -> Admission | None:
    """Begin a turn with its first steps, and reserve tokens for its first model call.

    None when a message was withdrawn, or the job given to another worker, since they were read: nothing has begun.
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
    """End a turn with its last step, the payment, the reply and the end of its messages.

    Without a reply it is the turn of an agent, whose answer is read by the turn that asked. Raises `Superseded` when
    another attempt runs the turn: then nothing is written and nothing may be sent.
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
