"""The message that shows live text."""

from adapters.chat.buttons import AnswerButtons, TurnButtons
from adapters.chat.parts import last_part
from adapters.discord.sending.reply import MESSAGE_LIMIT, Sender, to_rows, writer_for
from adapters.discord.sending.tables import tables_to_blocks
from adapters.discord.transport.rest import Json
from agent.live.announcer import LiveTurn


class LiveMessage:
    """The live message of one turn."""

    def __init__(self, sender: Sender, turn: LiveTurn, nonce: str) -> None:
        self._sender, self._turn, self._nonce = sender, turn, nonce
        self._writer = writer_for(sender.rest, turn.place, turn.reply_to)

    async def type(self) -> None:
        """Show the typing indicator."""
        await self._writer.type()

    async def post(self, text: str) -> str:
        """Post the message with the nonce that the final text will use."""
        message_id = str((await self._writer.write(self._body(text), f"{self._nonce}-0"))["id"])
        self._note(message_id)
        return message_id

    async def edit(self, message_id: str, text: str) -> None:
        """Edit the message; its button stays, unless the question was deleted."""
        body = self._body(text)
        del body["components"]
        await self._writer.change(message_id, body)
        self._note(message_id)

    def _body(self, text: str) -> Json:
        stop = TurnButtons(self._turn.turn_id, self._turn.asker, self._sender.app.clock.now()).stop()
        rows = to_rows(AnswerButtons((), [stop]))
        return {
            "content": render_live(text),
            "allowed_mentions": {"parse": []},
            "components": rows,
        }

    def _note(self, message_id: str) -> None:
        self._sender.edit_times[message_id] = self._sender.app.clock.monotonic()


def render_live(text: str) -> str:
    """Return the live text: the end of the answer if it is long."""
    return last_part(text, MESSAGE_LIMIT, tables_to_blocks)
