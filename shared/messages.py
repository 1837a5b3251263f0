"""Incoming messages and responses, in one format for all platforms, and the permission levels of who writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import asdict

# Who may have written something that is stored: the person whom it belongs to, or a stranger, by way of the model.
Author = Literal["person", "stranger"]
# Through these adapters a program writes on behalf of a user: its messages do not count as typed by the user.
AGENT_ADAPTERS = frozenset({"a2a"})


class Permission(IntEnum):
    """A permission level; each includes all lower ones."""

    GUEST = 0
    USER = 1
    ADMIN = 2
    OWNER = 3

    @property
    def label(self) -> str:
        """Return the level as it is stored in `users.permission_level`."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> "Permission":
        """Return the level with this label; raises `KeyError` for any other text."""
        return cls[label.upper()]


class Caller(Struct, frozen=True):
    """The user on whose behalf a tool runs."""

    id: int
    permission: Permission
    name: str
    time_zone: str = "UTC"
    week_start: str = "monday"


class Sender(Struct, frozen=True):
    """The account on one platform that sent a message."""

    platform: str
    platform_user_id: str
    username: str | None = None


def to_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with slots, as they are; its `asdict` copies each, at ten times the cost."""
    return {name: getattr(value, name) for name in value.__slots__}


class Place(Struct, frozen=True):
    """Where a message was written."""

    platform: str
    server: str | None
    channel: str
    thread: str | None = None
    is_direct: bool = False

    @classmethod
    def from_row(cls, row: Any) -> "Place":
        """Return the place that the columns of a conversation or of a message in the inbox or outbox name."""
        return cls(
            row.platform,
            row.platform_server_id,
            row.platform_channel_id,
            thread=row.platform_thread_id,
            is_direct=row.is_direct,
        )

    @property
    def key(self) -> str:
        """Return the place as one string; jobs lock on it, so that a place has one turn at a time."""
        parts = (self.platform, self.server, self.channel, self.thread)
        return ":".join("" if part is None else quote(part, safe="") for part in parts)


class QuotedMessage(Struct, frozen=True):
    """An earlier message of the place. With the platform's `message_id` it is redacted when that message is deleted.

    With the account of who wrote it, `author_id`, it is redacted when that person is erased.
    """

    speaker: str
    text: str
    message_id: str | None = None
    author_id: str | None = None


class PlatformContext(Struct, frozen=True):
    """What a platform says about a message's surroundings: the sender's roles, names of the place, earlier messages.

    `role_ids` is None when the platform did not name the sender's roles, and empty when the sender has none.
    """

    roles: tuple[str, ...] = ()
    role_ids: tuple[str, ...] | None = None
    server_name: str | None = None
    channel_name: str | None = None
    topic: str | None = None
    thread_title: str | None = None
    earlier: tuple[QuotedMessage, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that people have given to the place and to roles, and that a prompt shows."""
        return tuple(filter(None, (self.server_name, self.channel_name, *self.roles)))

    def to_row(self) -> dict[str, Any]:
        """Return what is stored; fields without a value are left out, because most adapters fill in none."""
        row = {name: value for name, value in asdict(self).items() if value or (name == "role_ids" and value == ())}
        if self.earlier:
            row["earlier"] = [
                {name: value for name, value in asdict(message).items() if value is not None}
                for message in self.earlier
            ]
        return row

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "PlatformContext":
        """Return the platform context of what is stored."""
        if not row:
            return cls()
        earlier = tuple(QuotedMessage(**message) for message in row.get("earlier", ()))
        lists: dict[str, Any] = {key: tuple(row[key]) for key in ("roles", "role_ids") if key in row}
        return cls(**(row | lists | {"earlier": earlier}))


class Attachment(Struct, frozen=True):
    """A file of a message: already in storage under `storage_key`, or to be fetched from `url`.

    `credential` names the credential that the platform's server requires; the platform's code adds the secret itself
    when it fetches the file. `voice_seconds` is set for what the sender has just spoken on the platform: its length.
    `sha256` is the checksum of what is in storage. `author` says who chose its name: a stranger, when it was forwarded.
    """

    filename: str
    mime_type: str = "application/octet-stream"
    size_bytes: int | None = None
    url: str | None = None
    storage_key: str | None = None
    credential: str | None = None
    voice_seconds: float | None = None
    sha256: str | None = None
    author: Author = "person"


class Decision(Struct, frozen=True):
    """An answer to one confirmation, given by a button or a program instead of a message.

    `approved_by` is the user who answered instead of the person who was asked; it is never taken from a client.
    """

    confirmation_id: int
    approved: bool
    approved_by: int | None = None

    @property
    def word(self) -> str:
        """Return the message that would have the same meaning."""
        return "yes" if self.approved else "no"


class FinishedCheck(Struct, frozen=True):
    """The call of a tool that a scheduled job has made, and its result as JSON."""

    tool: str
    arguments: dict[str, Any]
    result: str


class DueJob(Struct, frozen=True):
    """The scheduled job that a message is; its id is 0 for a notice of the installation itself.

    `notice` is what is said for it; None: the model answers the message. `choices` are commands to offer below it.
    """

    job_id: int
    notice: str | None = None
    check: FinishedCheck | None = None
    choices: tuple[str, ...] = ()

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "DueJob":
        """Return the due job of what is stored."""
        check = row.get("check")
        job_check = FinishedCheck(**check) if check else None
        return cls(row["job_id"], row.get("notice"), job_check, choices=tuple(row.get("choices") or ()))


# Choices below an answer that give a command, with their labels. Models can offer none of these (`agent/turn/loop.py`).
COMMAND_CHOICES = {"/more": "Ask for more", "/grant": "Grant", "/refuse": "Refuse"}


def find_command_label(choice: str) -> str | None:
    """Return the label of a choice that gives a command; None for one that is an answer."""
    return COMMAND_CHOICES.get(choice.partition(" ")[0])


class GivenCredentials(Struct, frozen=True):
    """The credentials that a program gives for one message, encrypted, by name; `owner` is what they are bound to."""

    owner: str = ""
    encrypted: Mapping[str, str] = field(default_factory=dict)


class EarlierMessage(Struct, frozen=True):
    """A message of the history that a program sends along with a message."""

    role: Literal["user", "assistant"]
    content: str


class Sampling(Struct, frozen=True):
    """How a model chooses its words, as a program asks for it; None and an empty `stop` leave it to the model."""

    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: Sequence[str] = ()

    def to_fields(self) -> dict[str, Any]:
        """Return the fields of a request to a model."""
        options = {name: value for name, value in asdict(self).items() if value is not None}
        stop = options.pop("stop")
        return options | ({"stop": list(stop)} if stop else {})


class ProgramRequest(Struct, frozen=True):
    """What a program's request brings beside its message, for this turn alone.

    `instructions` rank below those of the persona. `history` may hold anybody's text. Without a named conversation the
    request stands for itself: the history is that of the request alone, and nothing of it is remembered. With
    `is_anonymous` the program names no person: nobody's memories, files and other data are shown or written.
    `max_tokens` is None where the request leaves it to us. `model` is asked first, and the persona `persona_id` answers
    instead of the place's: an adapter sets them only for a person who may choose.
    """

    instructions: str = ""
    history: tuple[EarlierMessage, ...] = ()
    has_conversation: bool = False
    is_anonymous: bool = False
    max_tokens: int | None = None
    model: str | None = None
    persona_id: int | None = None
    sampling: Sampling = field(default_factory=Sampling)

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> "ProgramRequest":
        """Return the request of what is stored."""
        history = tuple(EarlierMessage(**message) for message in row["history"])
        return cls(**(row | {"history": history, "sampling": Sampling(**row.get("sampling", {}))}))


class IncomingMessage(Struct, frozen=True):
    """One message of a platform, ready for the inbox.

    `adapter` names the adapter that sends the reply (`http`, `web`, `terminal`, `discord`, `slack`, `schedule`);
    `event_id` is the platform's own id of the event, unique per platform. `sent_at` is the platform's time, None where
    it has none: then the message is ordered by its arrival in the inbox. `replied_to` is the `event_id` of the message
    that this one replies to; in a thread, of the thread's first message. `credentials` may be used by the tools of the
    message's turn, and are kept no longer; nor is `request`. `again_of` is the turn whose question this click asks
    again, as a copy.
    """

    adapter: str
    sender: Sender
    place: Place
    event_id: str
    content: str
    sent_at: datetime | None
    attachments: tuple[Attachment, ...] = ()
    platform_message_id: str | None = None
    wants_stream: bool = False
    platform_context: PlatformContext = field(default_factory=PlatformContext)
    decision: Decision | None = None
    replied_to: str | None = None
    due_job: DueJob | None = None
    credentials: GivenCredentials | None = None
    request: ProgramRequest | None = None
    again_of: int | None = None

    @property
    def is_remembered(self) -> bool:
        """Return whether the turn may become memories, a summary and the history of later turns."""
        return self.request is None or self.request.has_conversation

    @property
    def is_anonymous(self) -> bool:
        """Return whether nobody is named as the person who writes."""
        return self.request is not None and self.request.is_anonymous


@dataclass(frozen=True, slots=True)
class ReplyFile:
    """A file of a reply, with a signed link."""

    file_id: int
    filename: str
    mime_type: str
    size_bytes: int
    url: str


# Decimal places of a cost in US dollars, as in the column `token_logs.cost_estimate`.
COST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one or several model calls; `cost` is in US dollars, None when a price is unknown."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    @property
    def total(self) -> int:
        """Return the tokens that count against the budget: input plus output."""
        return self.input_tokens + self.output_tokens


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class EstimatedUsage(Usage):
    """Usage that no provider has reported; the ledger marks it."""


@dataclass(frozen=True, slots=True)
class ToolCallMade:
    """One tool call of a turn with its result."""

    tool: str
    args: dict[str, Any]
    result: Any


@dataclass(frozen=True, slots=True)
class AskedConfirmation:
    """A pending confirmation; a decision names its `id`."""

    id: int


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """The response to one turn. `error` is a stable error code, never the text of an exception.

    `confirmation` is set when `content` is a question that needs a yes or a no. A command belongs to no conversation.
    `action` is what a model in planner mode says it was doing, of its last plan with tools.
    """

    turn_id: int
    content: str
    files: tuple[ReplyFile, ...] = ()
    tool_calls_made: tuple[ToolCallMade, ...] = ()
    finished: bool = True
    iterations: int = 0
    model: str | None = None
    usage: Usage = NO_USAGE
    error: str | None = None
    confirmation: AskedConfirmation | None = None
    conversation_id: int | None = None
    action: str | None = None
