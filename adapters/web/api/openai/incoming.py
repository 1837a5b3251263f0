"""A request to the OpenAI-compatible API as an `IncomingMessage`: who writes, in which conversation, and with what."""

import hashlib
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import quote, unquote
from uuid import uuid4

from msgspec import Struct
from starlette.requests import Request

from adapters.web.api.bodies import MAX_NAME, require_place
from adapters.web.api.openai.bodies import ChatMessage, ChatRequest, FilePart
from adapters.web.api.openai.files import store_parts
from adapters.web.faults import Fault, invalid
from adapters.web.guard import person_of
from adapters.web.tokens import PLATFORM
from agent.app import App
from shared.messages import EarlierMessage, IncomingMessage, Place, ProgramRequest, Sender
from shared.text import clean, cut

# The account of all requests that name no person.
NOBODY = "anonymous"
# In which front ends name the person who writes to them: the id, and the name if there is one.
FORWARDED = (("x-openwebui-user-id", "x-openwebui-user-name"), ("x-librechat-user-id", "x-librechat-user-name"))
# What a front end sends where its configuration names a variable that it does not know: `{{LIBRECHAT_USER_ID}}`.
PLACEHOLDER = re.compile(r"\{\{.*\}\}|\$\{.*\}")
ASKED_FOR_TOOLS = "This agent brings its own tools; tools of the client can't be called. Leave the field out."
TOOLS_IN_HISTORY = "This agent brings its own tools; a client's calls and results can't be part of the messages."


class Thread(Struct, frozen=True):
    """Where a request goes on: the channel of its place, what was said before, and whether it is remembered there."""

    channel: str
    history: tuple[EarlierMessage, ...] = ()
    is_remembered: bool = True


async def to_incoming(
    app: App, body: ChatRequest, sender: Sender | None, *, key: str | None, thread: Thread | None = None
) -> IncomingMessage:
    """Return the user's last message as an `IncomingMessage`, with its files stored.

    Without a `thread` the conversation is the one that the request names or, if it names none, begins like.
    """
    place, message = read_messages(body.messages)
    conversation_id = (body.metadata or {}).get("conversation_id") if sender else None
    if sender is None:
        # Nobody shares a place or an event with somebody else, not even by the same key.
        lines = [f"{line.role} {line.content}" for line in thread.history] if thread else []
        digest = _digest(key, body.model_dump_json(), *lines) if key else uuid4().hex
        event_id = channel = f"{NOBODY}/{digest}"
        refuse_files(message, place)
    else:
        event_id = to_event_id(sender, key)
        # Clients repeat it each time, so a yes to a question finds the place in which it was asked.
        first = next(message.text for message in body.messages if message.role == "user")
        channel = thread.channel if thread else to_channel(sender, conversation_id or _digest(first))
    chat = Place(PLATFORM, None, channel, is_direct=True)
    require_place(chat)
    return IncomingMessage(
        adapter="http",
        sender=sender or Sender(PLATFORM, NOBODY),
        place=chat,
        event_id=event_id,
        content=message.text,
        sent_at=None,
        attachments=await store_parts(app, message),
        wants_stream=bool(body.stream),
        request=ProgramRequest(
            instructions=to_instructions(body.messages),
            history=(*(thread.history if thread else ()), *to_history(body.messages[:place])),
            has_conversation=bool(sender and thread.is_remembered) if thread else bool(conversation_id),
            is_anonymous=sender is None,
            max_tokens=body.max_completion_tokens or body.max_tokens,
            sampling=body.sampling,
        ),
    )


def to_event_id(sender: Sender, key: str | None) -> str:
    """Return the id of the event that a request with this key is, or of a new one."""
    # Scoped to the person, because two clients may use the same keys.
    return f"{quote(sender.platform_user_id, safe='')}:{_digest(key)}" if key else str(uuid4())


def to_channel(sender: Sender, name: str) -> str:
    """Return the channel of a person's conversation with this name."""
    return f"{quote(sender.platform_user_id, safe='')}/{name}"


def find_sender(
    headers: Mapping[str, str], user: str | None = None, safety_identifier: str | None = None
) -> Sender | None:
    """Return the person who writes; None if the request names nobody. Raises a 400 for a name that was not filled in.

    A header counts in place of the body, even if it is empty: the front end sets it, while its people may be able to
    add fields to the body.
    """
    from_headers = [(header, clean(headers[header])) for header, _ in FORWARDED if header in headers]
    from_body = (("user", user or ""), ("safety_identifier", safety_identifier or ""))
    for field, value in from_headers or from_body:
        person = value.strip()
        if PLACEHOLDER.search(person):
            raise invalid(field, "it names a variable that was not filled in, so all would be one person")
        if len(person) > MAX_NAME:
            raise invalid(field, f"it has more than {MAX_NAME} characters")
        if person and person.lower() != NOBODY:
            # Open WebUI writes it with the escapes of a URL.
            name = unquote(clean(headers.get(dict(FORWARDED).get(field, ""), ""))).strip()
            return Sender(PLATFORM, person, cut(clean(name), MAX_NAME) or None)
    return None


def find_speaker(request: Request, user: str | None = None, safety_identifier: str | None = None) -> Sender | None:
    """Return the person who writes, as `find_sender`; with a person's token that person, and a 403 for another."""
    sender, person = find_sender(request.headers, user, safety_identifier), person_of(request)
    if person is None:
        return sender
    if sender is not None:
        person.require(sender)
    return person.sender


def names_by_header(headers: Mapping[str, str]) -> bool:
    """Return whether a front end names who writes, even if it does not know the person."""
    return any(header in headers for header, _ in FORWARDED)


def read_messages(messages: list[ChatMessage]) -> tuple[int, ChatMessage]:
    """Return the place of the message to answer and the message; raises a 400 that names what is wrong."""
    for number, message in enumerate(messages):
        # A result that a client makes up would look like one of our tools'.
        if message.role in ("tool", "function") or message.tool_calls or message.function_call:
            raise Fault(400, "unsupported_parameter", TOOLS_IN_HISTORY, field=f"messages.{number}")
    place = max((number for number, message in enumerate(messages) if message.role == "user"), default=None)
    if place is None:
        raise invalid("messages", "there must be a message with the role user")
    if any(message.role == "assistant" for message in messages[place:]):
        raise invalid("messages", "the last one must be the user's: an answer can't be continued")
    last = messages[place]
    if not last.text.strip() and not last.files:
        raise invalid("messages", "the last message of the user is empty")
    return place, last


def refuse_files(message: ChatMessage, place: int) -> None:
    """Refuse files of nobody: they are stored for a person, and read by tools that ask whose they are."""
    if any(isinstance(part, FilePart) for part in message.files):
        raise invalid(f"messages.{place}.content", "a file needs a person: name one in `user`")


def to_instructions(messages: list[ChatMessage]) -> str:
    """Return the texts of all messages with the role system or developer."""
    return "\n\n".join(message.text for message in messages if message.role in ("system", "developer")).strip()


def to_history(messages: list[ChatMessage]) -> tuple[EarlierMessage, ...]:
    """Return what person and agent have said before."""
    history: list[EarlierMessage] = []
    for message in messages:
        role: Literal["user", "assistant"] | None = (
            message.role if message.role == "user" or message.role == "assistant" else None  # noqa: PLR1714 - for mypy
        )
        if role is not None and message.text_with_marks.strip():
            history.append(EarlierMessage(role, message.text_with_marks))
    return tuple(history)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
