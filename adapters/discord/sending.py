"""A reply goes out: one post when it is short, edits of the live message, parts, files."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import text

from adapters.discord.pens import ChannelPen, Pen, ResponsePen, pen_for
from adapters.discord.render import render
from adapters.discord.rest import GONE, MISSING_PERMISSIONS, TOO_LARGE, Json, Refused, Rest, Upload
from shared.errors import NotFound, Unavailable
from shared.messages import ReplyFile

if TYPE_CHECKING:
    from agent.app import App
    from agent.outbox import Reply

MOST_FILES = 10
MOST_FILE_BYTES = 10 * 1024 * 1024

FACTS = text("""
SELECT coalesce(personas.allow_mentions, false) AS allows_mentions, turns.status, last.platform_user_id AS asker,
       last.edited_at IS NOT NULL AND position(last.content IN (
           SELECT content FROM messages WHERE messages.turn_id = turns.id AND seq = 0
       )) = 0 AS was_edited
FROM turns LEFT JOIN personas ON personas.id = turns.persona_id
LEFT JOIN LATERAL (
    SELECT platform_user_id, edited_at, content FROM inbox WHERE inbox.turn_id = turns.id ORDER BY id DESC LIMIT 1
) AS last ON true
WHERE turns.id = :turn_id
""")


@dataclass(frozen=True, slots=True)
class Facts:
    """What has to be known of a reply's turn: who asked, and what its persona allows."""

    allows_mentions: bool = False
    status: str = "answered"
    asker: str | None = None
    was_edited: bool = False

    def allowed_mentions(self) -> Json:
        """Return whom the reply may call: nobody, or the people it names; never everyone, never a role."""
        return {"parse": ["users"] if self.allows_mentions else [], "replied_user": self.allows_mentions}


async def find_facts(app: "App", turn_id: int) -> Facts:
    """Return the facts of a turn."""
    async with app.database.statement() as session:
        row = (await session.execute(FACTS, {"turn_id": turn_id})).one_or_none()
    return Facts() if row is None else Facts(*row)


async def send(app: "App", rest: Rest, reply: "Reply", facts: Facts, rows: Sequence[Json]) -> str:
    """Say it once and return the id of the last message; `rows` are the buttons below it."""
    pen = pen_for(rest, reply.place, reply.reply_to)
    uploads, links = await _collect(app, reply.files)
    try:
        return await _write(pen, _Draft(reply, facts, rows, uploads, links))
    except Refused as error:
        if error.number in GONE and isinstance(pen, ResponsePen):
            # The response to a command can be written for 15 minutes; after that it is an ordinary message.
            pen = ChannelPen(rest, reply.place, None)
        elif uploads and error.number in (MISSING_PERMISSIONS, TOO_LARGE):
            uploads, links = [], [_link(each) for each in reply.files]
        else:
            raise
    return await _write(pen, _Draft(reply, facts, rows, uploads, links))


@dataclass(frozen=True, slots=True)
class _Draft:
    reply: "Reply"
    facts: Facts
    rows: Sequence[Json]
    uploads: Sequence[Upload]
    links: Sequence[str]

    def bodies(self) -> list[tuple[Json, list[Upload]]]:
        # Buttons and files go with the last part; an edit that leaves the buttons out would keep the old ones.
        rendered = render("\n".join([self.reply.content, *self.links]))
        mentions = self.facts.allowed_mentions()
        bodies: list[tuple[Json, list[Upload]]] = [
            ({"content": part, "allowed_mentions": mentions, "components": []}, []) for part in rendered.parts
        ]
        last, files = bodies[-1]
        last["components"] = list(self.rows)
        files += [*([rendered.file] if rendered.file else []), *self.uploads]
        return bodies


async def _write(pen: Pen, draft: _Draft) -> str:
    message_id = ""
    for index, (body, files) in enumerate(draft.bodies()):
        live = draft.reply.live_message_id if index == 0 else None
        message_id = await _write_one(pen, body, files, live, f"{_nonce(draft.reply)}-{index}")
    return message_id


async def _write_one(pen: Pen, body: Json, files: Sequence[Upload], live: str | None, nonce: str) -> str:
    if live is not None:
        try:
            return str((await pen.change(live, body, files))["id"])
        except Refused as error:
            if error.number not in GONE:
                raise
            # Somebody has deleted the message that showed the answer grow; its nonce still names it.
            nonce += "-again"
    made = await pen.write(body, nonce, files)
    if made["content"] != body["content"]:
        # What is there under this nonce is the live message of an attempt that died before it could note its id.
        made = await pen.change(str(made["id"]), body, files)
    return str(made["id"])


def _nonce(reply: "Reply") -> str:
    # A message that no turn could begin for is told by its reply alone.
    return nonce_of(reply.turn_id) if reply.turn_id else f"parley-r{reply.id:x}"


def nonce_of(turn_id: int) -> str:
    """Return what names the messages of a turn: up to 25 characters with what is put behind it."""
    return f"parley-{turn_id:x}"


async def _collect(app: "App", files: Sequence[ReplyFile]) -> tuple[list[Upload], list[str]]:
    """Return the files that can be sent, and a line with a link for each of the others."""
    uploads: list[Upload] = []
    links: list[str] = []
    room = MOST_FILE_BYTES
    for each in files:
        upload = await _read(app, each) if each.size_bytes <= room and len(uploads) < MOST_FILES - 1 else None
        if upload is None:
            links.append(_link(each))
            continue
        uploads.append(upload)
        room -= len(upload.content)
    return uploads, links


async def _read(app: "App", file: ReplyFile) -> Upload | None:
    try:
        _, chunks = await app.storage.open(app.database, file.file_id)
        async with aclosing(chunks) as pieces:
            return Upload(file.filename, b"".join([piece async for piece in pieces]))
    except (NotFound, Unavailable):
        return None


def _link(file: ReplyFile) -> str:
    return f"\n{file.filename}: <{file.url}>"
