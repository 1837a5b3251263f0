"""Converts a peer's message into an `IncomingMessage`: sender, place, hops, text and files."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

from a2a.types.a2a_pb2 import SendMessageRequest
from google.protobuf.json_format import MessageToDict
from msgspec.structs import replace
from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError

from adapters.web.api.bodies import MAX_ATTACHMENTS, MAX_CONTENT, Closed, Flag, LooseName, Name, WebAddress
from adapters.web.api.uploads import store_content
from adapters.web.faults import Fault, from_validation, invalid
from agent.app import App
from agent.people.hops import Hops, check_hops, installation_id, installation_of, is_hop, to_place
from shared.files.filenames import clean_filename
from shared.messages import Attachment, IncomingMessage, ProgramRequest, Sender
from shared.text import cut

PLATFORM = ADAPTER = "a2a"
NOBODY, UNNAMED = "anonymous", "Peer"
PERSON, HOPS = "parley/person", "parley/trail"
NO_TYPE = "application/octet-stream"
ADDRESS: TypeAdapter[str] = TypeAdapter(WebAddress)


def _are_hops(value: list[str]) -> list[str]:
    if not all(is_hop(hop) for hop in value):
        raise ValueError("each entry is a short name of letters, digits and . _ : / -")
    return value


class NamedPerson(Closed):
    """The person for whom a peer sends a message; `is_direct`: only this person sees the answer."""

    platform: Name
    platform_user_id: Name
    platform_username: LooseName | None = None
    is_direct: Flag = False


class MessageMetadata(Closed):
    """The fields of a message's metadata that we read."""

    person: NamedPerson | None = Field(default=None, alias="parley/person")
    hops: Annotated[list[str], Field(max_length=20), AfterValidator(_are_hops)] = Field(
        default=[], alias="parley/trail"
    )


class Ids(Closed):
    """The ids that the peer has chosen."""

    message_id: Annotated[Name, StringConstraints(max_length=150)]
    context_id: Annotated[LooseName, StringConstraints(max_length=150)]


async def to_incoming(
    app: App, params: SendMessageRequest, headers: Mapping[str, str], *, wants_stream: bool
) -> IncomingMessage:
    """Return the message in our shape with its files stored; raises `Fault` or `Refusal` when it can't be accepted."""
    message = params.message
    ids: Ids = _checked(Ids, {"message_id": message.message_id, "context_id": message.context_id})
    metadata = _read_metadata(params, headers)
    hops = tuple(metadata.hops)
    check_hops(hops, installation_id(app.secrets))
    sender = _sender(metadata.person, hops)
    is_direct = metadata.person is not None and metadata.person.is_direct
    context_id = ids.context_id
    if not context_id:
        # It begins a new one; if the message is sent twice, both have to get the same context.
        identity = json.dumps([sender.platform, sender.platform_user_id, ids.message_id])
        context_id = hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:32]
    texts = [
        json.dumps(MessageToDict(part.data), ensure_ascii=False) if part.HasField("data") else part.text
        for part in message.parts
    ]
    content = "\n".join(text for text in texts if text)
    if len(content) > MAX_CONTENT:
        raise invalid("message.parts", f"their text has more than {MAX_CONTENT:,} characters")
    attachments = await _store_files(app, message.parts)
    if not content.strip() and not attachments:
        raise invalid("message.parts", "there is neither text nor a file in them")
    # Peers that name nobody share an account, but no memories and no files; a context has its own history.
    is_nobody = (sender.platform, sender.platform_user_id) == (PLATFORM, NOBODY)
    return IncomingMessage(
        adapter=ADAPTER,
        sender=sender,
        place=to_place(sender.platform, context_id, hops, is_direct=is_direct),
        event_id=f"{ADAPTER}:{ids.message_id}",
        content=content,
        sent_at=None,
        attachments=attachments,
        platform_message_id=ids.message_id,
        wants_stream=wants_stream,
        request=ProgramRequest(has_conversation=True, is_anonymous=True) if is_nobody else None,
    )


def _read_metadata(params: SendMessageRequest, headers: Mapping[str, str]) -> MessageMetadata:
    parameters: dict[str, Any] = {**MessageToDict(params.metadata), **MessageToDict(params.message.metadata)}
    metadata = {key: parameters[key] for key in (PERSON, HOPS) if key in parameters}
    if PERSON not in metadata and "parley-user" in headers:
        metadata[PERSON] = {"platform": headers.get("parley-platform"), "platform_user_id": headers["parley-user"]}
    message_metadata: MessageMetadata = _checked(MessageMetadata, metadata)
    return message_metadata


def named_in(headers: Mapping[str, str]) -> Sender | None:
    """Return the person whom the headers of a call name; None if they name nobody. Raises `Fault` for a wrong name."""
    person = _read_metadata(SendMessageRequest(), headers).person
    return None if person is None else _sender(person, ())


def caller_of(headers: Mapping[str, str]) -> Sender:
    """Return whose tasks a call may reach: those of the person whom its headers name, else those of nobody."""
    return named_in(headers) or _sender(None, ())


def _sender(person: NamedPerson | None, hops: Hops) -> Sender:
    if person is None:
        # An installation that names no person asks for itself.
        return Sender(PLATFORM, installation_of(hops[-1]) if hops else NOBODY, UNNAMED)
    name = person.platform_username or (UNNAMED if person.platform == PLATFORM else None)
    return Sender(person.platform, person.platform_user_id, name)


async def _store_files(app: App, parts: Any) -> tuple[Attachment, ...]:
    files = [part for part in parts if part.HasField("raw") or part.HasField("url")]
    if len(files) > MAX_ATTACHMENTS:
        raise invalid("message.parts", f"there are more than {MAX_ATTACHMENTS} files in them")
    # All addresses are checked before the first file is stored. They are fetched later, during the turn, through the
    # egress guard.
    links: list[Attachment | None] = []
    for part in files:
        if not part.HasField("url"):
            links.append(None)
            continue
        try:
            url = ADDRESS.validate_python(part.url)
            name = part.filename or PurePosixPath(urlsplit(url).path).name or "file"
        except ValueError:
            raise invalid("message.parts", "the address of a file must begin with http:// or https://") from None
        mime_type = cut(part.media_type, 200) or NO_TYPE
        links.append(Attachment(clean_filename(name), mime_type, url=url, author="stranger"))
    attachments: list[Attachment] = []
    for part, link in zip(files, links, strict=True):
        if link is not None:
            attachments.append(link)
        else:
            filename, mime_type = part.filename or "file", cut(part.media_type, 200) or NO_TYPE
            file = await store_content(app, filename, mime_type, content=part.raw)
            attachments.append(replace(file, author="stranger"))
    return tuple(attachments)


def _checked(shape: Any, fields: Mapping[str, Any]) -> Any:
    try:
        return shape.model_validate(fields)
    except ValidationError as error:
        raise from_validation(error) from None


__all__ = ["ADAPTER", "PLATFORM", "Fault", "to_incoming"]
