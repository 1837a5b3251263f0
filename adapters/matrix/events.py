"""What is done with each event of a room: messages, edits, redactions, reactions, invitations."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.base import Running
from adapters.chat.addressing import Addressing
from adapters.chat.buttons import CHOICE, RUN, Button
from adapters.chat.clicks import STOPPING, THANKS, Click, accept_click
from adapters.chat.intake import Intake
from adapters.matrix.client import Json
from adapters.matrix.incoming import find_replied_to, part, to_addressing, to_incoming
from adapters.matrix.rooms import Room, Rooms
from adapters.matrix.sending import Sender, to_content, to_relation
from shared.db.statements import load_statements
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import IncomingMessage

if TYPE_CHECKING:
    from adapters.matrix.platform import MatrixPlatform

statements = load_statements(__file__)
log = get_logger()

ENCRYPTED_ROOM = "This room is encrypted, and I can't read it; please invite me to a room without encryption."
ENCRYPTED_FILE = "I can't read an encrypted file; please send it without encryption."


class Events:
    """Takes the events of one account's rooms."""

    def __init__(self, platform: "MatrixPlatform", me: str) -> None:
        self._invites, self._sender, self._me = platform.settings.invites, platform.sender, me
        self._app, self._client = platform.app, platform.client
        self._intake, self.rooms, self.running = Intake(platform), Rooms(), Running()
        self._takers = {
            "m.room.message": self._message,
            "m.room.redaction": self._redact,
            "m.reaction": self._click,
            "m.room.encrypted": self._refuse_room,
            "m.room.tombstone": self._follow,
        }

    async def take(self, room: Room, event: Json) -> None:
        """Take one event; the agent's own are none."""
        taker = self._takers.get(str(event.get("type")))
        if taker is not None and event["sender"] != self._me:
            await taker(room, event)

    async def take_invite(self, room_id: str, invite: Json) -> None:
        """Accept an invitation, if whoever invites may; else decline it."""
        events = part(invite, "invite_state").get("events") or ()
        own = [event for event in events if event.get("state_key") == self._me and event["type"] == "m.room.member"]
        account = str(own[0]["sender"]) if own else ""
        names = {name.strip() for name in self._invites.split(",")}
        is_welcome = not names.isdisjoint({"all", account, f"*:{account.partition(':')[2]}"})
        if not is_welcome and "admins" in names:
            async with self._app.database.statement() as session:
                is_welcome = bool((await session.execute(statements.is_admin, {"account": account})).scalar_one())
        await self._client.call("POST", ("rooms", room_id, "join" if is_welcome else "leave"), {})
        if is_welcome and part(own[0], "content").get("is_direct"):
            await self._client.note_direct(account, room_id)
        log.info("matrix_invited", room=room_id, account=account, is_accepted=is_welcome)

    async def _message(self, room: Room, event: Json) -> None:
        content = part(event, "content")
        relation, new = part(content, "m.relates_to"), part(content, "m.new_content")
        if relation.get("rel_type") == "m.replace":
            await self._edit(room, event | {"event_id": str(relation.get("event_id"))}, new)
            return
        message = self._to_message(room, event)
        if content.get("msgtype") == "m.notice":
            # Those of bots, which are read and not answered.
            self._intake.remember(message)
            return
        addressing = await self._to_addressing(room, event, message)
        refusal = ENCRYPTED_FILE if "file" in content else None
        if await self._intake.take(message, addressing, question_thread=message.event_id, refusal=refusal):
            self.running.start(self._mark_read(room.id, message.event_id), "read mark")

    async def _edit(self, room: Room, event: Json, new: Json) -> None:
        # Anybody can send an edit of another's message: it is the author's own, in this room, or none.
        original = await self._client.find_event(room.id, event["event_id"])
        if original is None or original.get("sender") != event["sender"] or new.get("msgtype") in (None, "m.notice"):
            return
        edited = event | {"content": new | {"m.relates_to": part(original, "content", "m.relates_to")}}
        message = self._to_message(room, edited)
        show = partial(self._sender.show_again, message.place)
        await self._intake.edit(message, await self._to_addressing(room, edited, message), show)

    async def _redact(self, room: Room, event: Json) -> None:
        event_id = str(part(event, "content").get("redacts") or event.get("redacts"))
        # Another server may send a redaction that counts for nothing: the homeserver says what is gone.
        redacted = await self._client.find_event(room.id, event_id)
        if "redacted_because" in part(redacted, "unsigned"):
            await self._intake.delete(room.id, [event_id])

    async def _click(self, room: Room, event: Json) -> None:
        relation = part(event, "content", "m.relates_to")
        target = str(relation.get("event_id"))
        pressed = await self._sender.reactions.find(room.id, target, str(relation.get("key")))
        if pressed is not None:
            button, thread = pressed
            message = self._to_message(room, event)
            arrival = replace(message, place=replace(message.place, thread=thread), platform_message_id=target)
            await accept_click(self._app, MatrixClick(self._sender, button, arrival))

    async def _refuse_room(self, room: Room, event: Json) -> None:
        name = f"encrypted {room.id}"
        message = replace(self._to_message(room, event), event_id=name, platform_message_id=name)
        await self._intake.say(message, ENCRYPTED_ROOM, is_once=True)

    async def _follow(self, room: Room, event: Json) -> None:
        # State: a mere message of this kind can be sent by every member, to lead the agent anywhere.
        if event.get("state_key") == "" and (successor := part(event, "content").get("replacement_room")):
            server = str(event["sender"]).partition(":")[2]
            await self._client.call("POST", ("join", str(successor)), {}, server_name=server)

    def _to_message(self, room: Room, event: Json) -> IncomingMessage:
        return to_incoming(event, room, self.rooms, me=self._me, homeserver=self._client.homeserver)

    async def _to_addressing(self, room: Room, event: Json, message: IncomingMessage) -> Addressing:
        replied_to = None if message.place.is_direct else find_replied_to(event)
        replied = await self._client.find_event(room.id, replied_to) if replied_to else None
        return to_addressing(event, message, self._me, replied_account=str(replied["sender"]) if replied else None)

    async def _mark_read(self, room_id: str, event_id: str) -> None:
        with suppress(ParleyError):
            await self._client.call("POST", ("rooms", room_id, "receipt", "m.read", event_id), {})


class MatrixClick(Click):
    """One reaction to a message of the agent."""

    def __init__(self, sender: Sender, button: Button, arrival: IncomingMessage) -> None:
        super().__init__(button, arrival)
        self._sender = sender

    async def whisper(self, text: str) -> None:
        """Answer in the room: nothing is seen by one person alone. A vote, and a stranger's, is a reaction like any."""
        is_own = self.account == self.button.asker
        if text not in (THANKS, STOPPING) and (is_own or self.button.action in (CHOICE, RUN)):
            place, target = self.arrival.place, self.arrival.platform_message_id
            content = to_content(text) | to_relation(place, target)
            await self._sender.client.send(place.channel, content, self._sender.to_key(self.arrival.event_id))

    def mention(self, account: str) -> str:
        """Return the account."""
        return account

    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message; later reactions are none of ours."""
        await self._sender.app.inbox.accept(message)
        place, target = self.arrival.place, self.arrival.platform_message_id
        await self._sender.reactions.delete(place.channel, target or "")
