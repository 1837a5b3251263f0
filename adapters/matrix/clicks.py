"""Reactions to the agent's messages, which are its buttons."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adapters.chat.buttons import AGAIN, CHOICE, RUN, Button
from adapters.chat.clicks import STOPPING, THANKS, Click
from adapters.matrix.client import Json
from adapters.matrix.incoming import to_incoming, to_sender
from adapters.matrix.rooms import Room
from adapters.matrix.sending import Sender, to_content, to_relation
from shared.db.statements import load_statements
from shared.messages import IncomingMessage, Place, PlatformContext
from shared.messages import Sender as Author

if TYPE_CHECKING:
    from agent.app import App

statements = load_statements(__file__)


class MatrixClick(Click):
    """One reaction."""

    def __init__(self, app: "App", sender: Sender, button: Button, *, event: Json, room: Room, place: Place) -> None:
        super().__init__(button, str(event["sender"]))
        self._app, self._sender, self._event, self._room, self._place = app, sender, event, room, place
        self._target = str(event["content"]["m.relates_to"]["event_id"])

    async def whisper(self, text: str) -> None:
        """Answer in the room: nothing is seen by one person alone. A vote, and a stranger's, is a reaction like any."""
        is_own = self.account == self.button.asker
        if text in (THANKS, STOPPING) or not (is_own or self.button.action in (CHOICE, RUN)):
            return
        content = to_content(text) | to_relation(self._place, self._target)
        await self._sender.client.send(self._room.id, content, self._sender.to_key(self._event["event_id"]))

    def mention(self, account: str) -> str:
        """Return the account."""
        return account

    def origin(self) -> tuple[Author, Place, PlatformContext]:
        """Return who reacted, and where."""
        return to_sender(self._event, self._room), self._place, self._room.context_of(self.account, None, None)

    def to_message(self, row: Any, content: str) -> IncomingMessage:
        """Return the reaction as a message that answers the question's, or the question again."""
        context = self._room.context_of(self.account, None, None)
        message = to_incoming(self._event, self._room, self._place, text=content, files=(), context=context)
        reply_to = row.reply_to if self.button.action == AGAIN else self._target
        return replace(message, platform_message_id=reply_to, replied_to=None)

    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message; later reactions are none of ours."""
        await self._app.inbox.accept(message)
        async with self._app.database.statement() as session:
            await session.execute(statements.delete_buttons, {"event_id": self._target})
