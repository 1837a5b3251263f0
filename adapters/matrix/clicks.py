"""Reactions to the agent's messages, which are its buttons."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adapters.chat.buttons import CHOICE, RUN, Button
from adapters.chat.clicks import STOPPING, THANKS, Click
from adapters.matrix.client import Json
from adapters.matrix.incoming import to_incoming
from adapters.matrix.rooms import Room
from adapters.matrix.sending import Sender, to_content, to_relation
from shared.db.statements import load_statements
from shared.messages import IncomingMessage, Place

if TYPE_CHECKING:
    from agent.app import App

statements = load_statements(__file__)


class MatrixClick(Click):
    """One reaction."""

    def __init__(self, app: "App", sender: Sender, button: Button, *, event: Json, room: Room, place: Place) -> None:
        context = room.context_of(str(event["sender"]), None, None)
        arrival = to_incoming(event, room, place, text="", files=(), context=context)
        self._target = str(event["content"]["m.relates_to"]["event_id"])
        super().__init__(button, replace(arrival, platform_message_id=self._target, replied_to=None))
        self._app, self._sender = app, sender

    async def whisper(self, text: str) -> None:
        """Answer in the room: nothing is seen by one person alone. A vote, and a stranger's, is a reaction like any."""
        is_own = self.account == self.button.asker
        if text in (THANKS, STOPPING) or not (is_own or self.button.action in (CHOICE, RUN)):
            return
        place = self.arrival.place
        content = to_content(text) | to_relation(place, self._target)
        await self._sender.client.send(place.channel, content, self._sender.to_key(self.arrival.event_id))

    def mention(self, account: str) -> str:
        """Return the account."""
        return account

    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message; later reactions are none of ours."""
        await self._app.inbox.accept(message)
        async with self._app.database.statement() as session:
            await session.execute(statements.delete_buttons, {"event_id": self._target})
