"""What happens when somebody presses a button below an answer."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import discord
from sqlalchemy import text

from adapters.discord import buttons
from adapters.discord.buttons import Button, find_button
from adapters.discord.incoming import PLATFORM, to_place, to_sender, to_surroundings
from adapters.discord.pens import ASIDE, WHISPER
from adapters.discord.respond import Reception, store
from agent.approvals import to_answer_of_asked
from agent.redaction import DELETED
from agent.turn import request_stop
from shared.errors import ConfirmationClosed
from shared.messages import Attachment, Decision, IncomingMessage

if TYPE_CHECKING:
    from agent.app import App

NOT_YOURS = "These buttons are for <@{asker}>."
OVER = "These buttons have expired."
GONE = "That answer is gone."
WITHDRAWN = "What was asked has been deleted."
YES = "yes"

TURN = text("""
SELECT outbox.choices, outbox.reply_to,
       (SELECT confirmations.id FROM confirmations WHERE confirmations.turn_id = turns.id) AS confirmation_id,
       (SELECT json_agg(json_build_object('content', content, 'attachments', attachments, 'user', platform_user_id)
                        ORDER BY sent_at, id) FROM inbox WHERE inbox.turn_id = turns.id) AS asked
FROM turns JOIN outbox ON outbox.turn_id = turns.id WHERE turns.id = :turn_id
""")
RUNNING = text("""
SELECT turns.user_id FROM turns JOIN inbox ON inbox.turn_id = turns.id
WHERE turns.id = :turn_id AND turns.status = 'running' AND inbox.platform_user_id = :asker LIMIT 1
""")
VOTE = text("""
INSERT INTO feedback (turn_id, user_id, score) SELECT turns.id, turns.user_id, :score FROM turns
WHERE turns.id = :turn_id AND turns.user_id IS NOT NULL
ON CONFLICT (turn_id, user_id) DO UPDATE SET score = excluded.score RETURNING id
""")


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
            await self._reception.whisper(interaction, NOT_YOURS.format(asker=button.asker))
        elif button.is_over(self._app.clock.now()):
            await self._reception.whisper(interaction, OVER)
        else:
            await action(interaction, button)

    async def _stop(self, interaction: discord.Interaction, button: Button) -> None:
        async with self._app.database.statement() as session:
            given = {"turn_id": button.turn_id, "asker": button.asker}
            row = (await session.execute(RUNNING, given)).one_or_none()
        place = to_place(interaction.channel, interaction.guild)
        stopped = row is not None and await request_stop(self._app, place, row.user_id)
        await self._reception.whisper(interaction, "Stopping." if stopped else "It has ended already.")

    async def _ask_again(self, interaction: discord.Interaction, button: Button) -> None:
        row = await self._find(interaction, button)
        if row is None:
            return
        if all(each["content"] == DELETED for each in row.asked):
            await self._reception.whisper(interaction, WITHDRAWN)
            return
        content = "\n".join(each["content"] for each in row.asked if each["content"] != DELETED)
        files = tuple(Attachment(**file) for each in row.asked for file in each["attachments"])
        message = self._message(interaction, content, _next_to(row, interaction, row.reply_to), files)
        await store(self._app.database, message, partial(self._reception.update, interaction, []))

    async def _choose(self, interaction: discord.Interaction, button: Button) -> None:
        row = await self._find(interaction, button)
        if row is None:
            return
        if button.index >= len(row.choices):
            await self._reception.whisper(interaction, GONE)
            return
        choice = str(row.choices[button.index])
        # A question that needs a yes is answered by its id, whatever was said since.
        decision = None if row.confirmation_id is None else Decision(row.confirmation_id, approved=choice == YES)
        below = str(interaction.message.id) if interaction.message is not None else None
        message = self._message(interaction, choice, _next_to(row, interaction, below), decision=decision)
        # What is closed is told by the turn, to whoever was asked.
        with suppress(ConfirmationClosed):
            message = await to_answer_of_asked(self._app, message)
        if message.sender.platform_user_id != button.asker:
            await self._reception.whisper(interaction, NOT_YOURS.format(asker=button.asker))
            return
        rows = buttons.chosen_rows(row.choices, button.index)
        await store(self._app.database, message, partial(self._reception.update, interaction, rows))

    async def _vote(self, interaction: discord.Interaction, button: Button) -> None:
        given = {"turn_id": button.turn_id, "score": 1 if button.action == buttons.GOOD else -1}
        async with self._app.database.statement() as session:
            row = (await session.execute(VOTE, given)).one_or_none()
        await self._reception.whisper(interaction, GONE if row is None else "Thank you; that is noted.")

    async def _find(self, interaction: discord.Interaction, button: Button) -> Any:
        async with self._app.database.statement() as session:
            row = (await session.execute(TURN, {"turn_id": button.turn_id})).one_or_none()
        # Looked up again: an id alone opens nothing.
        if row is None or not row.asked or any(each["user"] != button.asker for each in row.asked):
            await self._reception.whisper(interaction, GONE)
            return None
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
            door=PLATFORM,
            sender=to_sender(interaction.user),
            place=to_place(interaction.channel, interaction.guild),
            event_id=str(interaction.id),
            content=content,
            sent_at=interaction.created_at,
            attachments=files,
            decision=decision,
            platform_message_id=reply_to,
            around=to_surroundings(interaction.user, interaction.channel, interaction.guild),
        )


def _next_to(row: Any, interaction: discord.Interaction, message_id: str | None) -> str | None:
    """Return what the next answer replies to: below one that its asker alone reads it is for them alone, too."""
    kind = str(row.reply_to).partition(":")[0]
    if kind in (WHISPER, ASIDE):
        return f"{ASIDE}:{interaction.token}"
    # A command has no message that could be referred to.
    return message_id if message_id and message_id.isdecimal() else None
