"""What happens when somebody presses a button below an answer, on every platform."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adapters.chat import buttons
from adapters.chat.buttons import Button
from agent.confirmations.approvers import to_answer_of_asked
from shared.errors import ConfirmationClosed
from shared.messages import Decision, IncomingMessage

if TYPE_CHECKING:
    from agent.app import App


class Click(ABC):
    """One press of a button, as a platform reports it; `account` is the person's id on the platform."""

    def __init__(self, button: Button, account: str) -> None:
        self.button, self.account = button, account

    @abstractmethod
    async def whisper(self, text: str) -> None:
        """Answer the person alone."""

    @abstractmethod
    def to_message(self, row: Any, content: str) -> IncomingMessage:
        """Return the click as a message of the person; `row` is the turn of the button, as `find_turn` gives it."""

    @abstractmethod
    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message, and take the buttons away from the answer that was clicked."""


async def take_click(app: "App", click: Click) -> None:
    """Do what a button asks for, or tell the person why not."""
    button = click.button
    # Who may answer a question for confirmation is looked up with the question.
    if click.account != button.asker and button.action != buttons.CHOICE:
        await _refuse(click)
    elif button.is_over(app.clock.now()):
        await click.whisper(buttons.OVER)
    elif button.action == buttons.STOP:
        await click.whisper(buttons.STOPPING if await buttons.stop(app, button) else buttons.ENDED)
    elif button.action in (buttons.GOOD, buttons.BAD):
        await click.whisper(buttons.THANKS if await buttons.vote(app, button) else buttons.GONE)
    elif (row := await buttons.find_turn(app, button)) is None:
        await click.whisper(buttons.GONE)
    elif button.action == buttons.AGAIN:
        await _ask_again(click, row)
    else:
        await _choose(app, click, row)


async def _ask_again(click: Click, row: Any) -> None:
    question = buttons.find_question(row)
    if question is None:
        await click.whisper(buttons.WITHDRAWN)
        return
    await click.store(replace(click.to_message(row, question.content), attachments=question.files), row)


async def _choose(app: "App", click: Click, row: Any) -> None:
    if click.button.index >= len(row.choices):
        await click.whisper(buttons.GONE)
        return
    choice = str(row.choices[click.button.index])
    # A question for confirmation is answered by its id, whatever was written since.
    decision = None if row.confirmation_id is None else Decision(row.confirmation_id, choice == buttons.YES)
    message = replace(click.to_message(row, choice), decision=decision)
    # One that is closed is reported by the turn, to the person who was asked.
    with suppress(ConfirmationClosed):
        message = await to_answer_of_asked(app.database, app.settings, message)
    if message.sender.platform_user_id != click.button.asker:
        await _refuse(click)
        return
    await click.store(message, row)


async def _refuse(click: Click) -> None:
    await click.whisper(buttons.NOT_YOURS.format(asker=click.button.asker.rpartition(":")[2]))
