"""What comes in and what goes out, in our shape, whatever the platform."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Sender:
    """Who wrote: an identity on one platform."""

    platform: str
    platform_user_id: str
    username: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message was written."""

    platform: str
    server: str | None
    channel: str
    thread: str | None = None
    is_direct: bool = False

    @property
    def key(self) -> str:
        """Return the canonical text of the place: the lock of its jobs, one turn at a time."""
        parts = (self.platform, self.server, self.channel, self.thread)
        return ":".join("" if part is None else quote(part, safe="") for part in parts)


@dataclass(frozen=True, slots=True)
class QuotedMessage:
    """Something that somebody has said before; with the platform's id of the message it is forgotten with that."""

    speaker: str
    text: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlatformContext:
    """What a platform tells beside a message: who the sender is there, where this is, what was said just before.

    `role_ids` None means that the platform did not say which roles the sender has, an empty tuple that there are none.
    """

    roles: tuple[str, ...] = ()
    role_ids: tuple[str, ...] | None = None
    server_name: str | None = None
    channel_name: str | None = None
    topic: str | None = None
    thread_title: str | None = None
    earlier: tuple[QuotedMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message: already in storage under `storage_key`, or to be fetched from `url`.

    `credential` names what the platform's server wants to see before it gives the file; the secret itself is the
    platform's to add when the file is fetched.
    """

    filename: str
    mime_type: str = "application/octet-stream"
    size_bytes: int | None = None
    url: str | None = None
    storage_key: str | None = None
    credential: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's answer to one question for confirmation, given by a button or a program instead of a word.

    `approved_by` is the user who has answered in the person's place; only the house sets it.
    """

    confirmation_id: int
    approved: bool
    approved_by: int | None = None

    @property
    def word(self) -> str:
        """Return what the person would have written instead."""
        return "yes" if self.approved else "no"


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """One event of a platform, ready for the inbox.

    `adapter` names the adapter that the reply leaves by (`http`, `web`, `terminal`, `discord`, `slack`, `schedule`);
    `event_id` is the platform's own id of the event, unique per platform.
    """

    adapter: str
    sender: Sender
    place: Place
    event_id: str
    content: str
    sent_at: datetime
    attachments: tuple[Attachment, ...] = ()
    platform_message_id: str | None = None
    wants_stream: bool = False
    platform_context: PlatformContext = field(default_factory=PlatformContext)
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class ReplyFile:
    """A file that goes out with a reply."""

    file_id: int
    filename: str
    mime_type: str
    size_bytes: int
    url: str


# Of US dollars: as exact as the ledger keeps what a call cost.
COST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one or several model calls; `cost` in US dollars, None where the price is unknown."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    @property
    def total(self) -> int:
        """Return what counts against the budget: input plus output tokens."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ToolCallMade:
    """One tool call of a turn with its outcome, as the caller is told."""

    tool: str
    args: dict[str, Any]
    result: Any


@dataclass(frozen=True, slots=True)
class AskedConfirmation:
    """The question that an answer is: its id, to be given back with the decision."""

    id: int


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """The answer to one turn. `error` is a stable code, never an exception's text.

    `confirmation` is there when the answer asks for a yes or a no.
    """

    turn_id: int
    content: str
    files: tuple[ReplyFile, ...] = ()
    tool_calls_made: tuple[ToolCallMade, ...] = ()
    finished: bool = True
    iterations: int = 0
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    error: str | None = None
    confirmation: AskedConfirmation | None = None
