"""Matrix as a `PostingPlatform`: one process listens, every worker sends and shows live text."""

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from mimetypes import guess_type
from typing import TYPE_CHECKING

from adapters.api_client import File, Json
from adapters.base import Finding
from adapters.chat.parts import Post, Upload, to_html
from adapters.chat.posting import Limits, PostingPlatform
from adapters.matrix.client import Client, Refused
from adapters.matrix.incoming import CREDENTIAL, DOWNLOAD, NAME
from adapters.matrix.settings import MatrixSettings
from shared.errors import Undeliverable
from shared.messages import Place

if TYPE_CHECKING:
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

    name = NAME
    limits = LIMITS
    settings: MatrixSettings

    def __init__(self, settings: MatrixSettings) -> None:
        super().__init__(settings)
        token = settings.token.get_secret_value() if settings.token else ""
        self.client = Client(settings.homeserver or "", token)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()
        await super().aclose()

    async def receive(self) -> None:
        """Listen until the connection or the lease is lost."""
        # Imported here because a worker does not listen.
        from adapters.matrix.listening import MatrixListener

        me = await self.client.find_me()
        if self.settings.user not in (None, me):
            raise Undeliverable(f"MATRIX_TOKEN is that of {me}, and MATRIX_USER names {self.settings.user}.")
        await MatrixListener(self, self.client, me, invites=self.settings.invites).run()

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
        path = ("rooms", place.channel, "redact", message_id, post.key)
        await self.client.call("PUT", path, {}, check=post.check)

    async def list_posted(self, place: Place) -> Mapping[str, str]:
        """Return the account's messages by key: a transaction id is forgotten after some time, or with the token."""
        me = await self.client.find_me()
        page = await self.client.call("GET", ("rooms", place.channel, "messages"), dir="b", limit=MOST_LISTED)
        own = [event for event in page.get("chunk") or () if event.get("sender") == me and event.get("content")]
        # The edit of a message has a key as well.
        own = [event for event in own if KEY in event["content"] and "m.new_content" not in event["content"]]
        return {str(event["content"][KEY]): str(event["event_id"]) for event in own}

    async def upload(self, place: Place, upload: Upload, post: Post) -> None:
        """Post a file, an image as one."""
        kind = guess_type(upload.filename)[0] or "application/octet-stream"
        url = await self.client.upload(File(upload.content, kind), filename=upload.filename, check=post.check)
        content: Json = {
            "msgtype": "m.image" if kind in IMAGES else "m.file",
            "url": url,
            KEY: post.key,
            "m.mentions": {},
        }
        content |= {"info": {"mimetype": kind, "size": len(upload.content)}, "filename": upload.filename}
        content |= {"body": upload.filename} | to_relation(place, post.reply_to)
        await self.client.send(place.channel, content, post.key, check=post.check)

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message."""
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        key = self.to_key("reaction", message_id, emoji)
        await self.client.send(place.channel, {"m.relates_to": relation}, key, kind="m.reaction")

    async def type(self, place: Place) -> None:
        """Show that the agent is writing."""
        path = ("rooms", place.channel, "typing", await self.client.find_me())
        await self.client.call("PUT", path, {"typing": True, "timeout": TYPING_MS})

    async def open_direct(self, account: str, server: str | None = None) -> str:
        """Return the direct room with a person, made if there is none."""
        me = await self.client.find_me()
        for room in (await self.client.list_directs()).get(account) or ():
            with suppress(Refused):
                members = (await self.client.call("GET", ("rooms", room, "members")))["chunk"]
                # Whoever is invited reads it later. A stranger may have invited this person to a room of theirs.
                inside = [event for event in members if event["content"]["membership"] in ("join", "invite")]
                ours = [event for event in inside if event["content"]["membership"] == "join" or event["sender"] == me]
                if len(inside) == 2 and {event["state_key"] for event in ours} == {me, account}:
                    return str(room)
        options = {"preset": "trusted_private_chat", "is_direct": True, "invite": [account]}
        room = str((await self.client.call("POST", ("createRoom",), options))["room_id"])
        await self.client.note_direct(account, room)
        return room

    def mention(self, account: str) -> str:
        """Return the account."""
        return account

    def mention_place(self, place: Place) -> str:
        """Return a link that clients show as the room."""
        return f"https://matrix.to/#/{place.channel}"

    def find_reason(self, error: Undeliverable) -> str | None:
        """Return why the account can't write in a room."""
        is_forbidden = isinstance(error, Refused) and error.errcode == "M_FORBIDDEN"
        return "I may not write there" if is_forbidden else None

    async def find_headers(self, url: str, credential: str) -> Mapping[str, str]:
        """Return the token for a file of the agent's own homeserver."""
        is_own = credential == CREDENTIAL and url.startswith(f"{self.client.address}{DOWNLOAD}")
        return {"Authorization": f"Bearer {self.client.token}"} if is_own else {}

    async def examine(self, settings: "Settings") -> AsyncGenerator[Finding]:  # all is asked of the homeserver
        """Yield what `parley doctor` reports: the account, its rooms, which of them are encrypted."""
        try:
            me = await self.client.find_me()
            is_meant = self.settings.user in (None, me)
            yield Finding("ok" if is_meant else "fail", f"the token is {me}'s, at {self.client.address}")
            rooms = (await self.client.call("GET", ("joined_rooms",)))["joined_rooms"]
            hint = "" if rooms else f"; invite {me} to one (MATRIX_INVITES={self.settings.invites})"
            yield Finding("ok" if rooms else "warn", f"rooms: {len(rooms)}{hint}")
            for room in rooms:
                with suppress(Refused):
                    await self.client.call("GET", ("rooms", room, "state", "m.room.encryption"))
                    yield Finding("warn", f"{room} is encrypted: nothing is answered there")
        finally:
            await self.client.aclose()


def to_content(post: Post) -> Json:
    """Return a message: a notice, which no bot answers, with the HTML of its Markdown beside the plain text.

    It notifies only whom the text names, if that is allowed, and never the whole room.
    """
    accounts = sorted(set(ACCOUNT.findall(post.text))) if post.allows_mentions else []
    content: Json = {"msgtype": "m.notice", "body": post.text or "\N{ZERO WIDTH SPACE}", KEY: post.key}
    content |= {"m.mentions": {"user_ids": accounts} if accounts else {}} | NO_PREVIEWS
    html = to_html(post.text)
    formatted = {"format": "org.matrix.custom.html", "formatted_body": html} if html else {}
    is_small = len(json.dumps(content | formatted, ensure_ascii=False).encode()) <= MOST_BYTES
    return content | formatted if is_small else content


def to_relation(place: Place, reply_to: str | None) -> Json:
    """Return what makes a message a reply, and one of the place's thread."""
    is_event = bool(reply_to and reply_to.startswith("$"))
    relation: Json = {"m.in_reply_to": {"event_id": reply_to}} if is_event else {}
    if place.thread is not None:
        relation |= {"rel_type": "m.thread", "event_id": place.thread, "is_falling_back": False}
    return {"m.relates_to": relation} if relation else {}
