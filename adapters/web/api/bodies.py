"""Request bodies: read within limits and validated; the message in our own format becomes an `IncomingMessage`."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from uuid import uuid4

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from starlette.requests import Request

from adapters.web.faults import Fault, from_validation
from adapters.web.tokens import Person
from agent.app import App
from shared.credentials.people import Credentials, check_name, check_value
from shared.errors import Refusal
from shared.messages import Attachment, Decision, IncomingMessage, Place, Sender
from shared.text import MAX_DEPTH, clean, clean_json

MEGABYTE = 1024 * 1024
MAX_JSON_BYTES = MEGABYTE
# Larger bodies are checked and parsed in a thread.
LARGE_BYTES = 256_000
# How many bytes of an oversize body are read and dropped before the response: a client whose connection is closed while
# it sends never sees the response.
DRAINED = 4
# Of one person at a time in a process, which holds each of them whole.
MAX_LARGE_BODIES = 4
ONE_AFTER_ANOTHER = f"{MAX_LARGE_BODIES} large requests of yours are arriving at this moment; send this one after them."
MAX_CONTENT = 100_000
MAX_NAME = 200
MAX_ADDRESS = 4000
MAX_PLACE_CHARS = 2400
ADAPTER = "http"
MAX_ATTACHMENTS = 20
MAX_CREDENTIALS = 10
# Years that Postgres and its drivers accept in every time zone.
YEARS = range(1970, 2101)
STRING = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
FILE_CONTENT = re.compile(rb'"(?:data|url|file_data|raw|bytes)"\s*+:\s*+"[^"]*+"?')

Model = TypeVar("Model", bound=BaseModel)


async def read_json(request: Request, model: type[Model], max_bytes: int) -> Model:
    """Return the body as this model; raises a `Fault` that names what is wrong."""
    require_type(request, "application/json")
    with within_share(request):
        body = b"".join([chunk async for chunk in capped(request, max_bytes)])
        if len(body) > LARGE_BYTES:
            return await asyncio.to_thread(parse, body, model)
        return parse(body, model)


@contextmanager
def within_share(request: Request) -> Iterator[None]:
    """Count a large body of a person's token while it arrives, slowly perhaps; raises the 429 for one too many.

    The API_TOKEN speaks for many people and has no such limit.
    """
    person: Person | None = getattr(request.state, "person", None)
    length = request.headers.get("content-length", "")
    if person is None or (length.isdigit() and int(length[:20]) <= LARGE_BYTES):
        yield
        return
    counts: Counter[str] = request.app.state.large_bodies
    if counts[person.account] >= MAX_LARGE_BODIES:
        raise Fault(429, "too_many_requests", ONE_AFTER_ANOTHER, headers={"Retry-After": "1"})
    counts[person.account] += 1
    try:
        yield
    finally:
        counts[person.account] -= 1
        if not counts[person.account]:
            del counts[person.account]


def parse(body: bytes, model: type[Model]) -> Model:
    """Return the bytes as this model; lone surrogates are replaced."""
    check_shape(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] != "json_invalid":
            raise from_validation(error) from None
        fault = error
    # The strict parser refuses a lone surrogate (half an emoji).
    try:
        # As UTF-8 alone: in another encoding the brackets that `check_shape` counts may hide.
        value = json.loads(body.decode("utf-8-sig", "surrogatepass"))
    except (ValueError, RecursionError):
        raise from_validation(fault) from None
    try:
        # Serialised again, because the models accept a date only as JSON text.
        return model.model_validate_json(json.dumps(clean_json(value)))
    except ValidationError as error:
        raise from_validation(error) from None


def check_shape(body: bytes) -> None:
    """Refuse JSON that is nested too deep, or is large even without the content of files."""
    if len(body) > MAX_JSON_BYTES:
        files = sum(match.end() - match.start() for match in FILE_CONTENT.finditer(body))
        if len(body) - files > MAX_JSON_BYTES:
            raise too_large(MAX_JSON_BYTES, "JSON without the content of files")
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    depth = 0
    for byte in STRING.sub(b"", body):
        if byte in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Fault(400, "invalid_json", f"The JSON is nested deeper than {MAX_DEPTH} levels.")
        elif byte in b"]}":
            depth -= 1


async def capped(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; raises a 413 as soon as it exceeds the limit."""
    size = 0
    try:
        content_length = int(request.headers.get("content-length", "0"))
    except ValueError:
        raise Fault(400, "invalid_request", "Content-Length is not a number.") from None
    async for chunk in request.stream():
        size += len(chunk)
        if max(size, content_length) <= max_bytes:
            yield chunk
        elif size > max_bytes * DRAINED:
            break
    if max(size, content_length) > max_bytes:
        raise too_large(max_bytes, "the body")


def too_large(max_bytes: int, what: str) -> Fault:
    """Return the 413 with the limit."""
    limit = f"{max_bytes / MEGABYTE:g} MB"
    return Fault(413, "too_large", f"Too large: {what} may have {limit}.", headers={"Connection": "close"})


def max_body(app: App) -> int:
    """Return the limit in bytes for a body with files."""
    return app.settings.max_body_mb * MEGABYTE


def require_type(request: Request, content_type: str) -> None:
    """Refuse a body with another content type, or a compressed one."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != content_type:
        raise Fault(415, "unsupported_media_type", f"Send the body with Content-Type: {content_type}.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Fault(415, "unsupported_media_type", "Send the body uncompressed.")


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


def check_place(place: Place) -> None:
    """Raise `ValueError` for a place whose names are too long together for the indexes of the tables."""
    if len(place.key) > MAX_PLACE_CHARS:
        raise ValueError(
            f"the names of the place may have {MAX_PLACE_CHARS:,} characters together, encoded as in a URL"
        )


def require_place(place: Place) -> None:
    """Raise the 400 for a place whose names are too long together."""
    try:
        check_place(place)
    except ValueError as error:
        raise Fault(400, "invalid_request", f"Too long: {error}.") from None


def _check(rule: Callable[[str], str]) -> Callable[[str], str]:
    def checked(value: str) -> str:
        try:
            return rule(value)
        except Refusal as refusal:
            raise ValueError(str(refusal)) from None

    return checked


Strict = StringConstraints(strict=True, max_length=MAX_NAME)
Name = Annotated[str, Strict, AfterValidator(clean), AfterValidator(_not_blank)]
LooseName = Annotated[str, Strict, AfterValidator(clean)]
Text = Annotated[str, StringConstraints(strict=True, max_length=MAX_CONTENT), AfterValidator(clean)]
CredentialName = Annotated[str, AfterValidator(_check(check_name))]
Credential = Annotated[str, Field(strict=True), AfterValidator(_check(check_value))]
Moment = Annotated[datetime, BeforeValidator(_from_text), AfterValidator(_in_utc)]
WebAddress = Annotated[str, StringConstraints(strict=True, max_length=MAX_ADDRESS, pattern=r"^https?://\S+$")]
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
        check_place(self.place)
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
        secret_values, owner = self.credentials, f"message of {self.platform} {self.platform_user_id}"
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
            credentials=credentials.encrypt_given(owner, secret_values) if secret_values else None,
        )
