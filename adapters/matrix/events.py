"""What is done with each event of a room: messages, edits, redactions, reactions, invitations."""

from functools import partial
from typing import Any

from adapters.base import STORE_SECONDS, Running
from adapters.chat.addressing import Exchanges, find_rule
from adapters.chat.buttons import buttons_of, find_button
from adapters.chat.clicks import accept_click
from adapters.chat.intake import Edits
from adapters.chat.undelivered import keep
from adapters.matrix.clicks import MatrixClick
from adapters.matrix.client import Json
from adapters.matrix.incoming import (
    find_replied_to,
    find_thread,
    list_files,
    part,
    to_addressing,
    to_incoming,
    to_relation,
    to_text,
)
from adapters.matrix.rooms import NAME, Room, Rooms
from adapters.matrix.sending import VARIANT, Sender, to_content, to_emoji
from adapters.matrix.sending import to_relation as to_reply
from agent import commands
from agent.queue.inbox import accept_answered
from shared.db.database import retry_on_lost_db
from shared.db.statements import load_statements
from shared.errors import ParleyError, Unavailable
from shared.log import get_logger
from shared.messages import IncomingMessage, Place, QuotedMessage
from shared.text import clean, cut

statements = load_statements(__file__)
log = get_logger()

LINE_CHARS = 500
ENCRYPTED_ROOM = "This room is encrypted, and I can't read it; please invite me to a room without encryption."
ENCRYPTED_FILE = "I can't read an encrypted file; please send it without encryption."
MARK = "parley.refused"


class Events:
    """Takes the events of one account's rooms."""

    def __init__(self, sender: Sender, rooms: Rooms, me: str, *, invites: str, running: Running) -> None:
        self._sender, self._rooms, self._me, self._invites, self._running = sender, rooms, me, invites, running
        self._app, self._client = sender.app, sender.client
        self._exchanges, self._edits = Exchanges(), Edits(sender.app, NAME)

    async def take(self, room: Room, event: Json) -> None:
        """Take one event; the agent's own are none, and notices of bots are read, not answered."""
        kind, content = event.get("type"), part(event, "content")
        # State: a mere message of this kind can be sent by every member, to lead the agent anywhere.
        if kind == "m.room.tombstone" and event.get("state_key") == "" and content.get("replacement_room"):
            server = str(event["sender"]).partition(":")[2]
            await self._client.call("POST", ("join", str(content["replacement_room"])), {}, server_name=server)
        elif event["sender"] == self._me:
            return
        elif kind == "m.room.redaction":
            await self._redact(room, str(content.get("redacts") or event.get("redacts")))
        elif kind == "m.reaction":
            await self._click(room, event)
        elif kind == "m.room.encrypted":
            await self._refuse_room(room)
        elif kind == "m.room.message" and content:
            relation, other = to_relation(event)
            if relation == "m.replace":
                await self._edit(room, event, str(other))
            else:
                await self._message(room, event)

    async def take_invite(self, room_id: str, invite: Json) -> None:
        """Accept an invitation, if whoever invites may; else decline it."""
        events = part(invite, "invite_state").get("events") or ()
        own = [event for event in events if event.get("state_key") == self._me and event["type"] == "m.room.member"]
        account = str(own[0]["sender"]) if own else ""
        names = {name.strip() for name in self._invites.split(",")}
        is_welcome = "all" in names or account in names or f"*:{account.partition(':')[2]}" in names
        if not is_welcome and "admins" in names:
            async with self._app.database.statement() as session:
                is_welcome = bool((await session.execute(statements.is_admin, {"account": account})).scalar_one())
        await self._client.call("POST", ("rooms", room_id, "join" if is_welcome else "leave"), {})
        if is_welcome and part(own[0], "content").get("is_direct"):
            await self._client.note_direct(account, room_id)
        log.info("matrix_invited", room=room_id, account=account, is_accepted=is_welcome)

    async def _message(self, room: Room, event: Json, *, is_edit: bool = False) -> None:
        content, thread = part(event, "content"), find_thread(event)
        text = to_text(content, self._me, room.name_of(self._me))
        quote = QuotedMessage(
            room.name_of(str(event["sender"])),
            cut(text or clean(str(content.get("body") or "")), LINE_CHARS),
            message_id=str(event["event_id"]),
            author_id=str(event["sender"]),
        )
        if content.get("msgtype") == "m.notice":
            room.recent.append((thread, quote))
            return
        place = self._rooms.place_of(room, thread)
        rule = await find_rule(self._app.database, place)
        if rule.mode == "off" and not place.is_direct:
            return
        replied_to = None if place.is_direct else find_replied_to(event)
        replied = await self._client.find_event(room.id, replied_to) if replied_to else None
        author = str(replied["sender"]) if replied else None
        addressing = to_addressing(event, place, self._me, replied_account=author)
        takes_part = thread is not None and rule.is_known
        is_meant = place.is_direct or rule.mode == "always" or takes_part or addressing.calls_agent
        if not is_meant or (
            not (place.is_direct or rule.answers_others) and self._exchanges.is_between_people(addressing)
        ):
            room.recent.append((thread, quote))
            return
        if rule.thread_per_question and not place.is_direct and thread is None:
            place = self._rooms.place_of(room, str(event["event_id"]))
        if "file" in content:
            await self._tell(place, ENCRYPTED_FILE, str(event["event_id"]))
        files = list_files(content, self._client.homeserver)
        context = room.context_of(str(event["sender"]), self._rooms.space_of(room), thread)
        message = to_incoming(event, room, place, text=text, files=files, context=context)
        if not text and not files:
            return
        if commands.COMMAND_LINE.fullmatch(text) is not None and not is_edit:
            await self._command(message)
            return
        await retry_on_lost_db(lambda: self._app.inbox.accept(message), STORE_SECONDS)
        room.recent.clear()
        self._running.start(self._mark_read(room.id, str(event["event_id"])), "read mark")

    async def _command(self, message: IncomingMessage) -> None:
        """Answer a command once; what one person alone may see goes into the direct room with that person."""
        if not await accept_answered(self._app.database, message):
            return
        asker, place = message.sender.platform_user_id, message.place
        reply = await retry_on_lost_db(
            lambda: commands.answer(
                self._app, message.sender, place, text=message.content, platform_context=message.platform_context
            ),
            STORE_SECONDS,
        )
        if reply is None:
            return
        where, reply_to = place, message.event_id
        try:
            if reply.is_private and not place.is_direct:
                where, reply_to = Place(NAME, None, await self._client.open_direct(asker), is_direct=True), ""
            buttons = to_emoji(buttons_of(reply, asker, self._app.clock.now()))
            text = "\n".join([reply.text, *(f"[{file.filename}]({file.url})" for file in reply.files)])
            text += "".join(f"\n{emoji} {shown.label}" for emoji, shown in buttons.items())
            event_id = await self._tell(where, text, reply_to, key=message.event_id)
            await self._sender.offer(where, event_id, buttons)
        except Unavailable as error:
            await keep(self._app, place, asker=asker, reply=reply, message_id=None, error=error)

    async def _tell(self, place: Place, text: str, reply_to: str, key: str = "") -> str:
        content = to_content(text) | to_reply(place, reply_to)
        return await self._client.send(place.channel, content, self._sender.to_key("told", key or reply_to, text[:40]))

    async def _edit(self, room: Room, event: Json, edited_id: str) -> None:
        # Anybody can send an edit of another's message: it is the author's own, in this room, or none.
        original = await self._client.find_event(room.id, edited_id)
        content = part(part(event, "content"), "m.new_content")
        if original is None or original.get("sender") != event["sender"] or not content:
            return
        text = to_text(content, self._me, room.name_of(self._me))
        change = await self._edits.change(edited_id, text)
        if change is None:
            relation = part(original, "content").get("m.relates_to") or {}
            edited: dict[str, Any] = event | {"event_id": edited_id, "content": content | {"m.relates_to": relation}}
            await self._message(room, edited, is_edit=True)
        elif change.turn_id is not None:
            show = partial(self._sender.show_again, self._rooms.place_of(room, find_thread(original)))
            await self._edits.offer_again(change.turn_id, str(event["sender"]), show)

    async def _redact(self, room: Room, event_id: str) -> None:
        # Another server may send a redaction that counts for nothing: the homeserver says what is gone.
        event = await self._client.find_event(room.id, event_id)
        if event is not None and "redacted_because" in part(event, "unsigned"):
            kept = [entry for entry in room.recent if entry[1].message_id != event_id]
            room.recent.clear()
            room.recent.extend(kept)
            await self._edits.delete([event_id])

    async def _click(self, room: Room, event: Json) -> None:
        relation = part(part(event, "content"), "m.relates_to")
        emoji = str(relation.get("key")).replace(VARIANT, "")
        parameters = {"event_id": str(relation.get("event_id")), "room": room.id, "emoji": emoji}
        async with self._app.database.statement() as session:
            row = (await session.execute(statements.find_button, parameters)).one_or_none()
        button = find_button(row.button) if row is not None and row.button else None
        if button is not None:
            place = self._rooms.place_of(room, row.thread)
            click = MatrixClick(self._app, self._sender, button, event=event, room=room, place=place)
            await accept_click(self._app, click)

    async def _refuse_room(self, room: Room) -> None:
        # Once: the mark is kept beside the room, in the account.
        path = ("user", self._me, "rooms", room.id, "account_data", MARK)
        try:
            await self._client.call("GET", path)
        except ParleyError:
            await self._tell(Place(NAME, room.id, room.id), ENCRYPTED_ROOM, "", key=room.id)
            await self._client.call("PUT", path, {"reason": "encrypted"})

    async def _mark_read(self, room_id: str, event_id: str) -> None:
        try:
            await self._client.call("POST", ("rooms", room_id, "receipt", "m.read", event_id), {})
        except ParleyError as error:
            log.info("matrix_not_marked_read", room=room_id, cause=str(error))
