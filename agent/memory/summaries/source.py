"""The transcript that a summary is written from: what people and the agent said, in order."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from msgspec import Struct

from agent.journal.pastes import without_pastes
from agent.memory.facts import Statement
from agent.memory.recordings import list_transcripts
from agent.memory.summaries.claims import Claim
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import AGENT_ADAPTERS
from shared.text import count_tokens, cut

statements = load_statements(__file__)

MAX_LINES = 600
MAX_LINE_CHARS = 6000
AGENT = "Assistant"


class Line(Struct, frozen=True):
    """Something that was said; `is_answered` is True when the agent spoke next.

    `statement` is set for what a person typed or spoke, without quotes of others: facts may be drawn from it, unless
    they have been.
    """

    turn_id: int
    said_at: datetime
    speaker: str
    content: str
    is_bot: bool = False
    is_answered: bool = False
    statement: Statement | None = None

    @classmethod
    def from_row(cls, row: Any, *, is_answered: bool) -> "Line":
        """Return the line of a row of `read_transcript`."""
        speaker, content, statement = row.speaker or "Somebody", str(row.content), None
        if row.typed is not None:
            transcripts = list_transcripts(row.content, zip(row.file_ids, row.filenames, strict=True))
            # Beside somebody else's speech nothing spoken counts: it may imitate the heading of the writer's own.
            is_own = all(transcript.is_own for transcript in transcripts)
            spoken = [transcript.text for transcript in transcripts if transcript.has_speech and is_own]
            typed = "\n".join([without_pastes(row.typed), *spoken]).strip()
            if typed and row.user_id is not None and row.is_unread:
                statement = Statement(
                    row.user_id,
                    row.turn_id,
                    message_id=row.message_id,
                    speaker=speaker,
                    typed=typed,
                    said_at=row.said_at,
                )
            if row.was_edited:
                content = "\n\n".join([row.typed, *(transcript.block for transcript in transcripts)])
        return cls(
            row.turn_id,
            row.said_at,
            speaker=AGENT if row.is_bot else speaker,
            content=cut(content, MAX_LINE_CHARS),
            is_bot=row.is_bot,
            is_answered=is_answered,
            statement=statement,
        )


class Source(Struct, frozen=True):
    """What is to be summarised; `has_more` is True when more was said behind it."""

    lines: tuple[Line, ...] = ()
    has_more: bool = False

    @property
    def last_turn_id(self) -> int:
        """Return the last turn of the source."""
        return self.lines[-1].turn_id

    @property
    def statements(self) -> dict[int, Statement]:
        """Return what people typed and spoke, by the number of the line in the transcript."""
        return {number: line.statement for number, line in enumerate(self.lines, 1) if line.statement is not None}


async def read_source(session: Session, claimed: Claim, max_tokens: int) -> Source:
    """Read what was said since the summary: whole turns, at most `max_tokens` of them but at least one."""
    parameters = {
        "id": claimed.id,
        "after": claimed.done_turn_id,
        "is_direct": claimed.place.is_direct,
        "user_id": claimed.user_id,
        "limit": MAX_LINES,
        "agents": list(AGENT_ADAPTERS),
    }
    rows = (await session.execute(statements.read_transcript, parameters)).all()
    turns = [list(group) for _, group in groupby(rows, key=lambda row: row.turn_id)]
    # The last turn may have been cut by the limit.
    whole = turns[:-1] if len(rows) == MAX_LINES and len(turns) > 1 else turns
    batch: list[list[Any]] = []
    tokens = 0
    for turn in whole:
        tokens += sum(count_tokens(row.content[:MAX_LINE_CHARS]) for row in turn)
        if batch and tokens > max_tokens:
            break
        batch.append(turn)
    rows = [row for turn in batch for row in turn]
    followed_by_bot = [*(row.is_bot for row in rows[1:]), False][: len(rows)]
    lines = tuple(
        Line.from_row(row, is_answered=is_answered) for row, is_answered in zip(rows, followed_by_bot, strict=True)
    )
    return Source(lines, has_more=len(batch) < len(turns))


def to_transcript(lines: Sequence[Line]) -> str:
    """Return the lines as text for a model, each message on one line with its number, date and speaker."""
    entries = []
    for number, line in enumerate(lines, 1):
        # Further lines are indented, so that a message cannot imitate a line of another speaker.
        content = line.content.replace("\r", "\n").replace("\n", "\n  ")
        entries.append(f"#{number} [{line.said_at:%Y-%m-%d %H:%M}] {line.speaker.replace(':', ' ')}: {content}")
    return "\n".join(entries)
