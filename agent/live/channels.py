"""The channels of Postgres by which processes notify each other of turns, and the request to stop one."""

from typing import Annotated, Any

from msgspec.structs import asdict, replace
from pydantic import BaseModel, Field, ValidationError

from shared.db.single import SessionSource
from shared.db.statements import load_statements
from shared.messages import Place
from shared.text import MAX_ID

statements = load_statements(__file__)

# `TURNS`: a turn has new events, a text delta, or has ended. `CANCELLATIONS`: a turn should stop (its id).
# `READERS`: a process asks whether any reader waits for a message, and another process answers; or it asks for the text
# of a message's running turn. `DUE`: a scheduled job, or a window of the page, has sent a message into a place (its
# key), or a chat of a list was answered or named. `JOBS`: there may be a job for a worker (its id; empty: for any).
TURNS, CANCELLATIONS, READERS, DUE = "parley_turns", "parley_stops", "parley_readers", "parley_due"
JOBS = "parley_jobs"
# Sent by triggers, with the name of the table that an admin has changed.
CHANGES = "parley_changes"
MAX_SEQ = 2**31 - 2

Id = Annotated[int, Field(ge=0, le=MAX_ID)]
Seq = Annotated[int, Field(ge=-1, le=MAX_SEQ)]


class TurnNote(BaseModel):
    """A note of `TURNS`: stored events up to `last_seq`, the encrypted `delta` with the number `seq`, or the end.

    `origin` is the process that runs the turn, whose readers have been told already. Without a `turn` the messages end
    whatever their turns do, as those of a person who is erased.
    """

    turn: Id = 0
    inbox: list[Id]
    last_seq: Seq | None = None
    end: bool = False
    seq: Seq = -1
    delta: str | None = None
    origin: str = ""


class ReaderNote(BaseModel):
    """A note of `READERS`: a process has `asked` whether one of these messages is awaited, or answers that it is.

    `text_of`: somebody has begun to follow this message late, and needs the text that its turn has told before.
    """

    asked: str | None = None
    inbox: list[Id] = []
    here: str | None = None
    text_of: Id | None = None


def read_note(kind: type[TurnNote | ReaderNote], payload: object) -> dict[str, Any] | None:
    """Return the fields that a note has; None for one that no process of ours sends: every role may send notes."""
    try:
        return kind.model_validate_json(str(payload)).model_dump(exclude_none=True, exclude_unset=True)
    except ValidationError:
        return None


def to_list_key(place: Place) -> str:
    """Return the key by which `DUE` tells of a person's list of chats: their channels begin with the person's id."""
    return replace(place, channel=place.channel.rpartition("/")[0]).key


async def request_stop(database: SessionSource, place: Place, user_id: int | None) -> bool:
    """Request that the running turn in a place stops; returns whether there was one.

    With `user_id` only a turn of this user is stopped, with None the turn of any user.
    """
    parameters = asdict(place) | {"user_id": user_id, "stops": CANCELLATIONS}
    async with database.statement() as session:
        return bool((await session.execute(statements.request_stop, parameters)).all())
