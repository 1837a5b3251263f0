"""The actions of buttons below answers, on every platform."""

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from adapters.chat.buttons import AGAIN, BAD, CHOICE, GOOD, RUN, STOP, YES, Button, to_line
from adapters.chat.undelivered import Destination, answered, keep, run_command, to_reply
from agent.live.channels import request_stop
from agent.memory.deletion import DELETED
from agent.turn.confirmations.approvers import to_answer_of_asked
from shared.db.statements import load_statements
from shared.errors import ConfirmationClosed, Unavailable, Undeliverable
from shared.messages import Attachment, Decision, IncomingMessage, Place, find_command_label

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App
    from agent.queue.outbox import Reply

NOT_YOURS = "These buttons are for {asker}."
OVER = "These buttons have expired."
GONE = "That answer is gone."
WITHDRAWN = "What was asked has been deleted."
THANKS = "Thank you; that is noted."
STOPPING, ENDED = "Stopping.", "It has ended already."


class Click(ABC):
    """A click on a button. `arrival`: the click as a message of the person who clicked, there, still without a text."""

    def __init__(self, button: Button, arrival: IncomingMessage) -> None:
        self.button, self.arrival = button, arrival
        self.account = arrival.sender.platform_user_id
        # Where the reply to a command goes.
        self.to = Destination(arrival.adapter, arrival.place, self.account)

    @abstractmethod
    async def whisper(self, text: str) -> None:
        """Answer with a message that only this person sees."""

    def mention(self, account: str) -> str:
        """Return how a text mentions an account."""
        return f"<@{account.rpartition(':')[2]}>"

    async def acknowledge(self) -> None:
        """Tell the platform that the answer may take longer, where it waits for one."""
        return

    async def replace(self, reply: "Reply") -> None:
        """Replace the message with the button by the reply to its command; on platforms that can't, it is a message."""
        await self.whisper(reply.content)

    def to_message(self, row: Any, content: str) -> IncomingMessage:
        """Return the click as a message that replies to the one with the button, or asks the old question again.

        `row` is the button's turn, a row of `find_turn`.
        """
        reply_to = row.reply_to if self.button.action == AGAIN else self.arrival.platform_message_id
        return replace(self.arrival, content=content, platform_message_id=reply_to)

    @abstractmethod
    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message, and remove the buttons from the answer."""


async def accept_click(app: "App", click: Click) -> None:
    """Run the button's action, or tell the person why it is refused."""
    button = click.button
    # Who may decide is stored with the question for confirmation.
    if click.account != button.asker and button.action != CHOICE:
        await _refuse(click)
        return
    if button.is_over(app.clock.now()):
        await click.whisper(OVER)
        return
    parameters: dict[str, Any] = {"turn_id": button.turn_id, "asker": button.asker}
    if button.action == STOP:
        async with app.database.statement() as session:
            running = (await session.execute(statements.find_running_turn, parameters)).one_or_none()
        is_stopping = running and await request_stop(app.database, Place.from_row(running), running.user_id)
        await click.whisper(STOPPING if is_stopping else ENDED)
        return
    if button.action in (GOOD, BAD):
        parameters["score"] = 1 if button.action == GOOD else -1
        async with app.database.statement() as session:
            vote = (await session.execute(statements.store_vote, parameters)).one_or_none()
        await click.whisper(GONE if vote is None else THANKS)
        return
    if button.action == RUN:
        line = to_line(button)
        await (click.whisper(GONE) if line is None else _run_line(app, click, line))
        return
    async with app.database.statement() as session:
        row = (await session.execute(statements.find_turn, {"turn_id": button.turn_id})).one_or_none()
    # That this person wrote everything which the turn answers is checked in the database: an id can be made up.
    if row is None or not row.asked or any(inbox_row["user"] != button.asker for inbox_row in row.asked):
        await click.whisper(GONE)
        return
    await (_ask_again(click, row) if button.action == AGAIN else _choose(app, click, row))


async def _run_line(app: "App", click: Click, line: str) -> None:
    """Run a command once, however often the click comes."""
    await click.acknowledge()
    answer = await run_command(app, click.arrival, click.to, line=line)
    if answer is None:
        return
    to, reply = answer
    async with answered(app, reply, to) as is_own:
        if is_own:
            try:
                await click.replace(to_reply(to, reply))
            except (Unavailable, Undeliverable) as error:
                await keep(app, to, reply, error=error)


async def _ask_again(click: Click, row: Any) -> None:
    # Without what was deleted since.
    inbox_rows = [inbox_row for inbox_row in row.asked if inbox_row["content"] != DELETED]
    if not inbox_rows:
        await click.whisper(WITHDRAWN)
        return
    message = click.to_message(row, "\n".join(inbox_row["content"] for inbox_row in inbox_rows))
    files = tuple(Attachment(**file) for inbox_row in inbox_rows for file in inbox_row["attachments"])
    await click.store(replace(message, attachments=files, again_of=click.button.turn_id), row)


async def _choose(app: "App", click: Click, row: Any) -> None:
    if click.button.index >= len(row.choices):
        await click.whisper(GONE)
        return
    choice = str(row.choices[click.button.index])
    if find_command_label(choice) is not None:
        if click.account == click.button.asker:
            await _run_line(app, click, choice)
        else:
            await _refuse(click)
        return
    # The decision names the question's id, because other messages may have followed.
    decision = None if row.confirmation_id is None else Decision(row.confirmation_id, choice == YES)
    message = replace(click.to_message(row, choice), decision=decision)
    # For a closed question the turn answers, to the person whose question it was.
    with suppress(ConfirmationClosed):
        message = await to_answer_of_asked(app.database, message)
    if message.sender.platform_user_id != click.button.asker:
        await _refuse(click)
        return
    await click.store(message, row)


async def _refuse(click: Click) -> None:
    await click.whisper(NOT_YOURS.format(asker=click.mention(click.button.asker)))
