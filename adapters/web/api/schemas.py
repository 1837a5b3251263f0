"""Schemas of requests, and their conversion to an `IncomingMessage`."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from shared.credentials.people import Credentials, check_name, check_value
from shared.errors import Refusal
from shared.messages import Attachment, Decision, IncomingMessage, Place, Sender
from shared.text import clean

MAX_CONTENT = 100_000
ADAPTER = "http"
MAX_ATTACHMENTS = 20
MAX_CREDENTIALS = 10
# Years that Postgres and its drivers accept in every time zone.
YEARS = range(1970, 2101)


def _from_text(value: Any) -> Any:
    # Pydantic would read a bare number as seconds since 1970.
    if not isinstance(value, str):
        raise ValueError("write an ISO 8601 date and time, for instance 2026-05-01T12:00:00Z")
    return value


def _in_utc(value: datetime) -> datetime:
    if value.year not in YEARS:
        raise ValueError(f"the year must lie between {YEARS[0]} and {YEARS[-1]}")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("it may not be empty")
    return value


def _check(rule: Callable[[str], str]) -> Callable[[str], str]:
    def checked(value: str) -> str:
        try:
            return rule(value)
        except Refusal as refusal:
            raise ValueError(str(refusal)) from None

    return checked


Strict = StringConstraints(strict=True, max_length=200)
Name = Annotated[str, Strict, AfterValidator(clean), AfterValidator(_not_blank)]
LooseName = Annotated[str, Strict, AfterValidator(clean)]
Text = Annotated[str, StringConstraints(strict=True, max_length=MAX_CONTENT), AfterValidator(clean)]
CredentialName = Annotated[str, AfterValidator(_check(check_name))]
Credential = Annotated[str, Field(strict=True), AfterValidator(_check(check_value))]
Moment = Annotated[datetime, BeforeValidator(_from_text), AfterValidator(_in_utc)]
WebAddress = Annotated[str, StringConstraints(strict=True, max_length=4000, pattern=r"^https?://\S+$")]
Flag = Annotated[bool, Field(strict=True)]


class Closed(BaseModel):
    """A schema that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class SentFile(Closed):
    """A file in a message: its content in base64, or a URL to fetch it from."""

    filename: Name
    url: WebAddress | None = None
    data: Annotated[str, Field(strict=True)] | None = None
    mime_type: Name = "application/octet-stream"
    size_bytes: Annotated[int, Field(strict=True, ge=0)] | None = None

    @model_validator(mode="after")
    def _has_one_source(self) -> "SentFile":
        if (self.url is None) == (self.data is None):
            raise ValueError("give either url or data")
        return self


class SentDecision(Closed):
    """The decision on a request for confirmation, by its id."""

    id: Annotated[int, Field(strict=True, ge=1, le=2**63 - 1)]
    approved: Flag


class SentMessage(Closed):
    """The body of `POST /v1/messages`."""

    platform: Name
    platform_user_id: Name
    platform_username: LooseName | None = None
    platform_channel_id: Name
    platform_thread_id: Name | None = None
    platform_server_id: Name | None = None
    is_direct: Flag | None = None
    platform_event_id: Name | None = None
    sent_at: Moment | None = None
    content: Text = ""
    attachments: Annotated[list[SentFile], Field(max_length=MAX_ATTACHMENTS)] = Field(default_factory=list)
    confirmation: SentDecision | None = None
    credentials: Annotated[dict[CredentialName, Credential], Field(max_length=MAX_CREDENTIALS, repr=False)] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _says_something(self) -> "SentMessage":
        if not self.content.strip() and not self.attachments and self.confirmation is None:
            raise ValueError("content: it may be empty only when there are attachments or a confirmation")
        return self

    @property
    def decision(self) -> Decision | None:
        """Return the decision on a request for confirmation."""
        return Decision(self.confirmation.id, self.confirmation.approved) if self.confirmation else None

    @property
    def sender(self) -> Sender:
        """Return the sender."""
        return Sender(self.platform, self.platform_user_id, self.platform_username)

    @property
    def place(self) -> Place:
        """Return the place; without a server it is a direct message unless `is_direct` is false."""
        is_direct = self.platform_server_id is None if self.is_direct is None else self.is_direct
        return Place(
            self.platform,
            self.platform_server_id,
            self.platform_channel_id,
            thread=self.platform_thread_id,
            is_direct=is_direct,
        )

    def to_incoming(
        self, files: tuple[Attachment, ...], *, wants_stream: bool, credentials: Credentials
    ) -> IncomingMessage:
        """Return the message as an `IncomingMessage`, with its credentials encrypted."""
        given, owner = self.credentials, f"message of {self.platform} {self.platform_user_id}"
        return IncomingMessage(
            adapter=ADAPTER,
            sender=self.sender,
            place=self.place,
            event_id=self.platform_event_id or str(uuid4()),
            content=self.content,
            sent_at=self.sent_at,
            attachments=files,
            wants_stream=wants_stream,
            decision=self.decision,
            credentials=credentials.encrypt_given(owner, given) if given else None,
        )


class Open(BaseModel):
    """A schema of OpenAI's API: unknown fields are ignored, because clients keep adding them."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)


class TextPart(Open):
    """A text part of a message."""

    type: Literal["text"]
    text: Text


class ImageAddress(Open):
    """The URL of an image, or a `data:` URL."""

    url: Annotated[str, Field(strict=True)]


class ImagePart(Open):
    """An image part of a message."""

    type: Literal["image_url"]
    image_url: ImageAddress


class FileContent(Open):
    """A file's name, and its content as a `data:` URL."""

    filename: Name = "file"
    file_data: Annotated[str, Field(strict=True)]


class FilePart(Open):
    """A file part of a message."""

    type: Literal["file"]
    file: FileContent


Part = Annotated[TextPart | ImagePart | FilePart, Field(discriminator="type")]


def _kind_of_content(value: Any) -> str:
    return "parts" if isinstance(value, list) else "text"


class ChatMessage(Open):
    """A message of the client's history; only the user's last one is answered."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: (
        Annotated[
            Annotated[Text, Tag("text")] | Annotated[list[Part], Field(max_length=100), Tag("parts")],
            Discriminator(_kind_of_content),
        ]
        | None
    ) = None

    @property
    def text(self) -> str:
        """Return the text, with parts joined by line breaks."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [] if isinstance(part, TextPart))


class StreamOptions(Open):
    """Options of a streamed answer."""

    include_usage: Flag = False


class ResponseFormat(Open):
    """The format of the answer; only text is supported."""

    type: Literal["text"]


class ChatRequest(Open):
    """The body of `POST /v1/chat/completions`."""

    model: Name = "parley"
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=10_000)]
    user: Name | None = None
    metadata: dict[str, LooseName] | None = None
    stream: Flag | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(strict=True, ge=1, le=1)] | None = None
    response_format: ResponseFormat | None = None
    tools: Any = None
    functions: Any = None


def first_of(messages: list[ChatMessage], role: str) -> str:
    """Return the text of the first message with this role, empty if there is none."""
    return next((message.text for message in messages if message.role == role), "")
