"""Matrix as a `PostingPlatform`: one process listens, every worker sends and shows live text."""

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from mimetypes import guess_type
from typing import ClassVar

from adapters.api_client import File, Json, objects, part
from adapters.base import Finding, Refused
from adapters.chat.account.invitations import list_unknown
from adapters.chat.parts import Post, Upload, to_html
from adapters.chat.posting import Limits, PostingPlatform
from adapters.matrix.client import Client
from adapters.matrix.incoming import CREDENTIAL, DOWNLOAD
from adapters.matrix.listening import MatrixListener
from adapters.matrix.rooms import NAME
from adapters.matrix.settings import MatrixSettings
from shared.messages import Place
from shared.settings import Settings

LIMITS = Limits(message_chars=8000, parts=3, preview_chars=3000, file_bytes=20 * 1024 * 1024)
# An event has at most 65,536 bytes, and that of an edit everything twice.
MOST_BYTES = 31_000
# Nobody's client asks its homeserver for a link of an answer: as Beeper's clients (MSC4095) and Element Web read it.
NO_PREVIEWS: Json = {"com.beeper.linkpreviews": [], "uk.half-shot.unstable.show_url_previews": False}
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
KEY, MOST_LISTED, TYPING_MS = "parley.key", 100, 10_000
ACCOUNT = re.compile(r"@[\w.=/+-]+:[\w.:-]*\w")


class MatrixPlatform(PostingPlatform):
    """One account of a homeserver."""

    # Clients take for themselves what begins with a slash.
    name, limits, command_sign = NAME, LIMITS, "!"
    account_mention, place_mention = "{whole}", "https://matrix.to/#/{place.channel}"
    reasons: ClassVar[Mapping[str | int, str]] = {"M_FORBIDDEN": "I may not write there"}
    settings: MatrixSettings

    def __init__(self, settings: MatrixSettings) -> None:
        super().__init__(settings)
        self.client = Client(settings)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()
        await super().aclose()

    async def receive(self) -> None:
        """Listen until the connection or the lease is lost."""
        await self.client.check_account()
        await MatrixListener(self, self.client, invites=self.settings.invites).run()

    async def post(self, place: Place, post: Post) -> str:
        """Post a message; the homeserver makes one event of a key."""
        content = to_content(post) | to_relation(place, post.reply_to)
        return await self.client.send(place.channel, content, post.key, check=post.check)

    async def edit(self, place: Place, message_id: str, post: Post) -> None:
        """Replace a message."""
        content, relation = to_content(post), {"rel_type": "m.replace", "event_id": message_id}
        edit = content | {"body": f"* {content['body']}", "m.new_content": content, "m.relates_to": relation}
        await self.client.send(place.channel, edit, post.key, check=post.check)

    async def remove(self, place: Place, message_id: str, post: Post) -> None:
        """Redact a message."""
        await self.client.call("PUT", ("rooms", place.channel, "redact", message_id, post.key), {}, check=post.check)

    async def list_posted(self, place: Place) -> Mapping[str, str]:
        """Return the account's messages by key: a transaction id is forgotten after some time, or with the token."""
        page = await self.client.call("GET", ("rooms", place.channel, "messages"), dir="b", limit=MOST_LISTED)
        own = [event for event in objects(page, "chunk") if event.get("sender") == self.client.account]
        own = [part(event, "content") | {"id": event["event_id"]} for event in own]
        # The edit of a message has a key as well.
        return {str(post[KEY]): str(post["id"]) for post in own if KEY in post and "m.new_content" not in post}

    async def upload(self, place: Place, upload: Upload, post: Post) -> None:
        """Post a file, an image as one."""
        kind = guess_type(upload.filename)[0] or "application/octet-stream"
        url = await self.client.upload(File(upload.content, kind), filename=upload.filename, check=post.check)
        content: Json = {"msgtype": "m.image" if kind in IMAGES else "m.file", "body": upload.filename, "url": url}
        content |= {"filename": upload.filename, "info": {"mimetype": kind, "size": len(upload.content)}}
        content |= {"m.mentions": {}, KEY: post.key} | to_relation(place, post.reply_to)
        await self.client.send(place.channel, content, post.key, check=post.check)

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message."""
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        key = self.to_key("reaction", message_id, emoji)
        await self.client.send(place.channel, {"m.relates_to": relation}, key, kind="m.reaction")

    async def type(self, place: Place) -> None:
        """Show that the agent is writing."""
        path = ("rooms", place.channel, "typing", self.client.account)
        await self.client.call("PUT", path, {"typing": True, "timeout": TYPING_MS})

    async def open_direct(self, account: str, server: str | None = None) -> str:
        """Return the direct room with a person, made if there is none."""
        me = self.client.account
        for room in (await self.client.list_directs()).get(account) or ():
            with suppress(Refused):
                members = (await self.client.call("GET", ("rooms", room, "members")))["chunk"]
                # Whoever is invited reads it later. A stranger may have invited this person to a room of theirs.
                inside = [event for event in members if event["content"]["membership"] in ("join", "invite")]
                is_ours = all(event["content"]["membership"] == "join" or event["sender"] == me for event in inside)
                if is_ours and sorted(event["state_key"] for event in inside) == sorted((me, account)):
                    return str(room)
        options = {"preset": "trusted_private_chat", "is_direct": True, "invite": [account]}
        room = str((await self.client.call("POST", ("createRoom",), options))["room_id"])
        await self.client.note_direct(account, room)
        return room

    async def find_headers(self, url: str, credential: str) -> Mapping[str, str]:
        """Return the token for a file of the agent's own homeserver."""
        is_own = credential == CREDENTIAL and url.startswith(f"{self.client.address}{DOWNLOAD}")
        return self.client.headers if is_own else {}

    async def examine(self, settings: Settings) -> AsyncGenerator[Finding]:  # all is asked of the homeserver
        """Yield what `parley doctor` reports: the account, its rooms, which of them are encrypted."""
        if self.client.is_exposed:
            yield Finding("warn", f"without https, others on the way to {self.client.address} read token and messages")
        for name in list_unknown(self.settings.invites):
            yield Finding("warn", f"MATRIX_INVITES names {name}, which is no account and no *:server")
        await self.client.check_account()
        yield Finding("ok", f"the token is {self.client.account}'s, at {self.client.address}")
        rooms = (await self.client.call("GET", ("joined_rooms",)))["joined_rooms"]
        hint = "" if rooms else f"; invite {self.client.account} to one (MATRIX_INVITES={self.settings.invites})"
        yield Finding("ok" if rooms else "warn", f"rooms: {len(rooms)}{hint}")
        for room in rooms:
            with suppress(Refused):
                await self.client.call("GET", ("rooms", room, "state", "m.room.encryption"))
                yield Finding("warn", f"{room} is encrypted: nothing is answered there")


def to_content(post: Post) -> Json:
    """Return a message: a notice, which no bot answers, with the HTML of its Markdown beside the plain text.

    It notifies only whom the text names, if that is allowed, and never the whole room.
    """
    accounts = sorted(set(ACCOUNT.findall(post.text))) if post.allows_mentions else []
    content: Json = {"msgtype": "m.notice", "body": post.text or "\N{ZERO WIDTH SPACE}", KEY: post.key}
    content |= {"m.mentions": {"user_ids": accounts} if accounts else {}} | NO_PREVIEWS
    formatted = {"format": "org.matrix.custom.html", "formatted_body": html} if (html := to_html(post.text)) else {}
    is_small = len(json.dumps(content | formatted, ensure_ascii=False).encode()) <= MOST_BYTES
    return content | formatted if is_small else content


def to_relation(place: Place, reply_to: str | None) -> Json:
    """Return what makes a message a reply, and one of the place's thread."""
    is_event = bool(reply_to and reply_to.startswith("$"))
    relation: Json = {"m.in_reply_to": {"event_id": reply_to}} if is_event else {}
    if place.thread is not None:
        relation |= {"rel_type": "m.thread", "event_id": place.thread, "is_falling_back": reply_to == place.thread}
    return {"m.relates_to": relation} if relation else {}
