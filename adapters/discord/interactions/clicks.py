"""What happens when somebody presses a button below an answer."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import discord

from adapters.chat import buttons
from adapters.chat.buttons import Button, find_button
from adapters.discord.events.incoming import PLATFORM, to_place, to_platform_context, to_sender
from adapters.discord.interactions.respond import Reception, store
from adapters.discord.sending.buttons import chosen_rows
from adapters.discord.sending.message_writer import ASIDE, WHISPER
from agent.confirmations.approvers import to_answer_of_asked
from shared.errors import ConfirmationClosed
from shared.messages import Attachment, Decision, IncomingMessage

if TYPE_CHECKING:
    from agent.app import App


class Clicks:
    """Takes clicks by what their buttons' ids say."""

    def __init__(self, app: "App", reception: Reception) -> None:
        self._app, self._reception = app, reception
        self._actions: dict[str, Callable[[discord.Interaction, Button], Awaitable[None]]] = {
            buttons.STOP: self._stop,
            buttons.AGAIN: self._ask_again,
            buttons.CHOICE: self._choose,
            buttons.GOOD: self._vote,
            buttons.BAD: self._vote,
        }

    async def take(self, interaction: discord.Interaction, custom_id: str) -> None:
        """Take a click; a button of nobody's is left alone."""
        button = find_button(custom_id)
        action = self._actions.get(button.action) if button is not None else None
        if button is None or action is None:
            return
        # Who may answer a question for confirmation is looked up with the question.
        if str(interaction.user.id) != button.asker and button.action != buttons.CHOICE:
            await self._reception.whisper(interaction, buttons.NOT_YOURS.format(asker=button.asker))
        elif button.is_over(self._app.clock.now()):
            await self._reception.whisper(interaction, buttons.OVER)
        else:
            await action(interaction, button)

    async def _stop(self, interaction: discord.Interaction, button: Button) -> None:
        is_stopping = await buttons.stop(self._app, button)
        await self._reception.whisper(interaction, buttons.STOPPING if is_stopping else buttons.ENDED)

    async def _ask_again(self, interaction: discord.Interaction, button: Button) -> None:
        row = await self._find(interaction, button)
        if row is None:
            return
        asked = buttons.find_question(row)
        if asked is None:
            await self._reception.whisper(interaction, buttons.WITHDRAWN)
            return
        message = self._message(interaction, asked.content, _next_to(row, interaction, row.reply_to), asked.files)
        await store(self._app.database, message, partial(self._reception.update, interaction, []))

    async def _choose(self, interaction: discord.Interaction, button: Button) -> None:
        row = await self._find(interaction, button)
        if row is None:
            return
        if button.index >= len(row.choices):
            await self._reception.whisper(interaction, buttons.GONE)
            return
        choice = str(row.choices[button.index])
        # A question that needs a yes is answered by its id, whatever was said since.
        decision = None if row.confirmation_id is None else Decision(row.confirmation_id, choice == buttons.YES)
        below = str(interaction.message.id) if interaction.message is not None else None
        message = self._message(interaction, choice, _next_to(row, interaction, below), decision=decision)
        # What is closed is told by the turn, to whoever was asked.
        with suppress(ConfirmationClosed):
            message = await to_answer_of_asked(self._app, message)
        if message.sender.platform_user_id != button.asker:
            await self._reception.whisper(interaction, buttons.NOT_YOURS.format(asker=button.asker))
            return
        rows = chosen_rows(row.choices, button.index)
        await store(self._app.database, message, partial(self._reception.update, interaction, rows))

    async def _vote(self, interaction: discord.Interaction, button: Button) -> None:
        is_kept = await buttons.vote(self._app, button)
        await self._reception.whisper(interaction, buttons.THANKS if is_kept else buttons.GONE)

    async def _find(self, interaction: discord.Interaction, button: Button) -> Any:
        row = await buttons.find_turn(self._app, button)
        if row is None:
            await self._reception.whisper(interaction, buttons.GONE)
        return row

    def _message(
        self,
        interaction: discord.Interaction,
        content: str,
        reply_to: str | None,
        files: tuple[Attachment, ...] = (),
        decision: Decision | None = None,
    ) -> IncomingMessage:
        return IncomingMessage(
            adapter=PLATFORM,
            sender=to_sender(interaction.user),
            place=to_place(interaction.channel, interaction.guild),
            event_id=str(interaction.id),
            content=content,
            sent_at=interaction.created_at,
            attachments=files,
            decision=decision,
            platform_message_id=reply_to,
            platform_context=to_platform_context(interaction.user, interaction.channel, interaction.guild),
        )


def _next_to(row: Any, interaction: discord.Interaction, message_id: str | None) -> str | None:
    """Return what the next answer replies to: below one that its asker alone reads it is for them alone, too."""
    kind = str(row.reply_to).partition(":")[0]
    if kind in (WHISPER, ASIDE):
        return f"{ASIDE}:{interaction.token}"
    # A command has no message that could be referred to.
    return message_id if message_id and message_id.isdecimal() else None
