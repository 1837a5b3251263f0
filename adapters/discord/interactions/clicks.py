"""Clicks on buttons on Discord, which have to be acknowledged within three seconds."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from adapters.chat.buttons import CHOICE, Button, ShownButton, to_label
from adapters.chat.clicks import Click
from adapters.discord.events.incoming import from_interaction
from adapters.discord.interactions.respond import Acknowledger, store
from adapters.discord.sending.reply import GREEN, GREY, in_rows, to_component
from adapters.discord.sending.response_writer import INTERACTION, WHISPER, is_private
from adapters.discord.transport.rest import Json
from shared.messages import IncomingMessage

if TYPE_CHECKING:
    import discord

    from agent.queue.inbox import Inbox
    from agent.queue.outbox import Reply


class DiscordClick(Click):
    """A component interaction."""

    def __init__(
        self, button: Button, interaction: "discord.Interaction", acknowledger: Acknowledger, inbox: "Inbox"
    ) -> None:
        message_id = str(interaction.message.id) if interaction.message is not None else None
        super().__init__(button, from_interaction(interaction, acknowledger.adapter, reply_to=message_id))
        # An edit of the message that was clicked.
        self.to = replace(self.to, response=f"{INTERACTION}:{interaction.token}")
        self._interaction, self._acknowledger, self._inbox = interaction, acknowledger, inbox

    async def whisper(self, text: str) -> None:
        """Answer with a message that only this person sees."""
        await self._acknowledger.whisper(self._interaction, text)

    async def acknowledge(self) -> None:
        """Tell Discord that the message will be edited."""
        await self._acknowledger.defer_update(self._interaction)

    async def replace(self, reply: "Reply") -> None:
        """Replace the text of the message, and remove its buttons."""
        await self._acknowledger.edit(self._interaction.token, reply.content)

    def to_message(self, row: Any, content: str) -> IncomingMessage:
        """Return the click as a message; what follows a private answer is private, too."""
        message = super().to_message(row, content)
        if is_private(row.reply_to):
            return replace(message, platform_message_id=f"{WHISPER}:{self._interaction.token}")
        # A command is not a message that a reply could refer to.
        is_message = (message.platform_message_id or "").isdecimal()
        return message if is_message else replace(message, platform_message_id=None)

    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message, and replace the buttons by what was chosen."""
        rows = chosen_rows(row.choices, self.button.index) if self.button.action == CHOICE else []
        if not is_private(message.platform_message_id):
            await store(self._inbox, message, partial(self._acknowledger.update, self._interaction, rows))
            return
        # The answer becomes the click's own response: a response can be edited twice, a follow-up would appear twice.
        defer = partial(self._acknowledger.defer, self._interaction, is_private=True)
        await store(self._inbox, message, defer)
        await self._acknowledger.replace_buttons(str(row.reply_to).partition(":")[2], rows)


def chosen_rows(choices: Sequence[str], index: int) -> list[Json]:
    """Return the rows after a choice, all disabled."""
    buttons = [
        ShownButton(Button(CHOICE, 0, "", expires=0, index=number), to_label(choice))
        for number, choice in enumerate(choices)
    ]
    styles = [GREEN if number == index else GREY for number in range(len(choices))]
    pairs = zip(map(to_component, buttons), styles, strict=True)
    return in_rows([component | {"style": style, "disabled": True} for component, style in pairs])
