"""Clicks on buttons on Discord, which have to be acknowledged within three seconds."""

from functools import partial
from typing import TYPE_CHECKING, Any

from adapters.chat.buttons import AGAIN, CHOICE, Button
from adapters.chat.clicks import Click
from adapters.discord.events.incoming import PLATFORM, to_interaction_place, to_platform_context, to_sender
from adapters.discord.interactions.respond import Acknowledger, store
from adapters.discord.sending.buttons import chosen_rows
from adapters.discord.sending.response_writer import WHISPER, is_private
from shared.messages import IncomingMessage, Place, PlatformContext, Sender

if TYPE_CHECKING:
    import discord

    from agent.queue.inbox import Inbox


class DiscordClick(Click):
    """A component interaction."""

    def __init__(
        self, button: Button, interaction: "discord.Interaction", acknowledger: Acknowledger, inbox: "Inbox"
    ) -> None:
        super().__init__(button, str(interaction.user.id))
        self._interaction, self._acknowledger, self._inbox = interaction, acknowledger, inbox

    async def whisper(self, text: str) -> None:
        """Answer with a message that only this person sees."""
        await self._acknowledger.whisper(self._interaction, text)

    def origin(self) -> tuple[Sender, Place, PlatformContext]:
        """Return who clicked, and where."""
        interaction = self._interaction
        context = to_platform_context(interaction.user, interaction.channel, interaction.guild)
        return to_sender(interaction.user), to_interaction_place(interaction), context

    async def acknowledge(self) -> None:
        """Tell Discord that the message will be edited."""
        await self._acknowledger.defer_update(self._interaction)

    async def replace(self, text: str) -> None:
        """Replace the text of the message, and remove its buttons."""
        await self._acknowledger.edit(self._interaction.token, text)

    def to_message(self, row: Any, content: str) -> IncomingMessage:
        """Return the click as a message in the channel of the button."""
        interaction = self._interaction
        message_id = str(interaction.message.id) if interaction.message is not None else None
        reply_to = row.reply_to if self.button.action == AGAIN else message_id
        if is_private(row.reply_to):
            # What follows a private answer is private, too.
            reply_to = f"{WHISPER}:{interaction.token}"
        elif not (reply_to and reply_to.isdecimal()):
            # A command is not a message that a reply could refer to.
            reply_to = None
        return IncomingMessage(
            adapter=PLATFORM,
            sender=to_sender(interaction.user),
            place=to_interaction_place(interaction),
            event_id=str(interaction.id),
            content=content,
            sent_at=interaction.created_at,
            platform_message_id=reply_to,
            platform_context=to_platform_context(interaction.user, interaction.channel, interaction.guild),
        )

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
