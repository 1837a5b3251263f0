"""Sends a reply: a new message, or an edit of the live message; parts and files."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from adapters.chat.parts import Upload, collect
from adapters.discord.sending.message_writer import ChannelWriter, MessageWriter, ResponseWriter, is_private, writer_for
from adapters.discord.sending.render import MOST_PARTS, Rendered, render
from adapters.discord.transport.rest import GONE, MISSING_PERMISSIONS, TOO_LARGE, Json, Refused, Rest, checked
from agent.people.hops import installation_id
from agent.queue.outbox import DeliveryInfo
from shared.errors import Unavailable
from shared.messages import Place, ReplyFile
from shared.settings import Secrets
from shared.tasks import run_on_text

if TYPE_CHECKING:
    from agent.app import App
    from agent.queue.outbox import Reply

# A nonce has at most 25 characters; the number of a part and a suffix follow these.
NONCE_DIGITS = 16
MEGABYTE = 1024 * 1024
# Discord's documented limits for each file; what else stands between may allow less, which the first refusal shows.
DEFAULT_BYTES, LESS_BYTES = 10 * MEGABYTE, 5 * MEGABYTE
# The files of one message are held in memory.
MOST_BYTES = 100 * MEGABYTE
BY_BOOST_TIER = {2: 50 * MEGABYTE, 3: 100 * MEGABYTE}
MOST_SERVERS = 1000


class UploadLimits:
    """How large each file of a message may be, by server; `None` stands for direct messages."""

    def __init__(self) -> None:
        self._known: dict[str | None, int] = {}

    async def find(self, rest: Rest, place: Place, wanted: int) -> int:
        """Return the limit in bytes; Discord is asked only if a file exceeds the default."""
        if place.server not in self._known and place.server is not None and wanted > DEFAULT_BYTES:
            self._keep(place.server, await _ask(rest, place.server))
        return self._known.get(place.server, DEFAULT_BYTES)

    def note_refusal(self, place: Place, tried: int) -> int:
        """Note that this size was refused; return the limit to try next."""
        allowed = next((each for each in (DEFAULT_BYTES, LESS_BYTES) if each < tried), 0)
        # One message without files says nothing about the next one.
        self._keep(place.server, allowed or LESS_BYTES)
        return allowed

    def _keep(self, server: str | None, allowed: int) -> None:
        if len(self._known) >= MOST_SERVERS:
            self._known.clear()
        self._known[server] = allowed


async def _ask(rest: Rest, server: str) -> int:
    try:
        guild = await rest.call("GET", "/guilds/{guild_id}", guild_id=server)
    except (Refused, Unavailable):
        return DEFAULT_BYTES
    return BY_BOOST_TIER.get(int(guild.get("premium_tier", 0)), DEFAULT_BYTES)


async def send(
    app: "App", rest: Rest, reply: "Reply", *, limits: UploadLimits, delivery: DeliveryInfo, rows: Sequence[Json]
) -> str:
    """Post a reply once and return the id of the last message; `rows` are the buttons below it."""
    writer = writer_for(rest, reply.place, reply.reply_to, was_tried=reply.was_tried)
    ids = list[str]()
    nonce = _nonce(app, reply)
    allowed = await limits.find(rest, reply.place, max((each.size_bytes for each in reply.files), default=0))
    while True:
        draft = await _draft(app, reply, delivery, rows=rows, allowed=allowed)
        try:
            await _write(writer, draft, ids, nonce=nonce)
        except Refused as error:
            if error.number in GONE and isinstance(writer, ResponseWriter):
                writer = await _after_response(rest, writer, reply, delivery=delivery)
            elif error.number == TOO_LARGE and draft.has_files:
                allowed = limits.note_refusal(reply.place, allowed)
            elif error.number == MISSING_PERMISSIONS and draft.has_files:
                allowed = 0
            else:
                raise
            continue
        return ids[-1]


async def _after_response(rest: Rest, writer: ResponseWriter, reply: "Reply", delivery: DeliveryInfo) -> ChannelWriter:
    # The response to a command can be edited for 15 minutes; afterwards an ordinary message is posted.
    if not writer.is_private or reply.place.is_direct or delivery.asker is None:
        return ChannelWriter(rest, reply.place, None)
    return ChannelWriter(rest, Place(reply.place.platform, None, await rest.open_direct(delivery.asker)), None)


@dataclass(frozen=True, slots=True)
class _Draft:
    # The rendered reply. A message begins with its text; buttons and files belong to the last one.
    reply: "Reply"
    delivery: DeliveryInfo
    rows: Sequence[Json]
    rendered: Rendered
    uploads: Sequence[Upload]

    @property
    def has_files(self) -> bool:
        return bool(self.uploads)

    def bodies(self) -> list[tuple[Json, Sequence[Upload]]]:
        # An edit without `components` would keep the old buttons.
        plain: Json = {"allowed_mentions": _to_allowed_mentions(self.delivery), "components": []}
        *before, last = self.rendered.parts
        bodies: list[tuple[Json, Sequence[Upload]]] = [({"content": part} | plain, ()) for part in before]
        return [*bodies, ({"content": last} | plain | {"components": list(self.rows)}, self.uploads)]


def _to_allowed_mentions(delivery: DeliveryInfo) -> Json:
    # Only people whom the text names, if the persona may mention anybody; never everyone, never a role.
    return {"parse": ["users"] if delivery.allows_mentions else [], "replied_user": delivery.allows_mentions}


async def _draft(app: "App", reply: "Reply", delivery: DeliveryInfo, rows: Sequence[Json], allowed: int) -> _Draft:
    """Return the reply with files of at most so many bytes each; 0 means no files."""
    small = [each for each in reply.files if allowed and each.size_bytes <= allowed]
    large = [each for each in reply.files if each not in small]
    uploads, others = await collect(app, small, MOST_BYTES)
    text = "\n".join([reply.content, *map(_link, [*large, *others])])
    # Private follow-ups can't be looked up and have no nonce: the whole answer is in the response, which is edited.
    most_parts = 1 if is_private(reply.reply_to) else MOST_PARTS
    rendered = await run_on_text(partial(render, may_attach=allowed > 0, most_parts=most_parts), text)
    whole = [rendered.file] if rendered.file else []
    return _Draft(reply, delivery, rows, rendered=rendered, uploads=[*whole, *uploads])


async def _write(writer: MessageWriter, draft: _Draft, ids: list[str], nonce: str) -> None:
    """Write the remaining parts; `ids` are those of the messages that exist."""
    for index, (body, files) in enumerate(draft.bodies()):
        if index < len(ids):
            continue
        live = draft.reply.live_message_id if index == 0 else None
        with checked(draft.reply.check_claim):
            ids.append(await _write_one(writer, body, files, live=live, nonce=f"{nonce}-{index}"))


async def _write_one(writer: MessageWriter, body: Json, files: Sequence[Upload], live: str | None, nonce: str) -> str:
    if live is not None:
        try:
            return str((await writer.change(live, body, files))["id"])
        except Refused as error:
            if error.number not in GONE:
                raise
            # The live message was deleted; Discord still knows its nonce.
            nonce += "-again"
    made = await writer.write(body, nonce, files)
    if made["content"].strip() != body["content"].strip():
        # The message with this nonce is the live message of an attempt that died before it stored the message's id.
        made = await writer.change(str(made["id"]), body, files)
    return str(made["id"])


def _nonce(app: "App", reply: "Reply") -> str:
    if reply.turn_id:
        return nonce_of_turn(app.secrets, reply.place, reply.reply_to, turn_id=reply.turn_id)
    return to_nonce(app.secrets, reply.place.key, reply.reply_to, "reply", reply.id)


def nonce_of_turn(secrets: Secrets, place: Place, reply_to: str | None, *, turn_id: int) -> str:
    """Return the prefix of the nonces of an answer; `reply_to` names the question.

    For some minutes, Discord makes only one message of an author's nonce. So it has to name one answer also beside a
    fresh or restored database, which counts its turns from an earlier number.
    """
    return to_nonce(secrets, place.key, reply_to, "turn", turn_id)


def to_nonce(secrets: Secrets, *identity: object) -> str:
    """Return the prefix of the nonces of what this identity names in this installation."""
    named = json.dumps([installation_id(secrets), *identity])
    return hashlib.sha256(named.encode()).hexdigest()[:NONCE_DIGITS]


def _link(file: ReplyFile) -> str:
    return f"\n{file.filename}: <{file.url}>"
