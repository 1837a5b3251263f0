"""The actions of buttons below answers, on every platform."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adapters.chat import buttons
from adapters.chat.buttons import Button
from adapters.chat.command_replies import to_line
from agent import commands
from agent.confirmations.approvers import to_answer_of_asked
from shared.errors import ConfirmationClosed
from shared.messages import Decision, IncomingMessage, Place, PlatformContext, Sender, find_command_label

if TYPE_CHECKING:
    from agent.app import App


class Click(ABC):
    """A click on a button, as the platform reports it; `account` is the person's id on the platform."""

    def __init__(self, button: Button, account: str) -> None:
        self.button, self.account = button, account

    @abstractmethod
    async def whisper(self, text: str) -> None:
        """Answer with a message that only this person sees."""

    @abstractmethod
    def origin(self) -> tuple[Sender, Place, PlatformContext]:
        """Return who clicked, and where."""

    async def acknowledge(self) -> None:
        """Tell the platform that the answer may take longer, where it waits for one."""
        return

    async def replace(self, text: str) -> None:
        """Replace the message with the button by a text; on platforms that can't, the text is a message."""
        await self.whisper(text)

    @abstractmethod
    def to_message(self, row: Any, content: str) -> IncomingMessage:
        """Return the click as a message; `row` is the button's turn, as `find_turn` returns it."""

    @abstractmethod
    async def store(self, message: IncomingMessage, row: Any) -> None:
        """Store the message, and remove the buttons from the answer."""


async def accept_click(app: "App", click: Click) -> None:
    """Run the button's action, or tell the person why it is refused."""
    button = click.button
    # Who may decide is stored with the question for confirmation.
    if click.account != button.asker and button.action != buttons.CHOICE:
        await _refuse(click)
    elif button.is_over(app.clock.now()):
        await click.whisper(buttons.OVER)
    elif button.action == buttons.STOP:
        await click.whisper(buttons.STOPPING if await buttons.stop(app, button) else buttons.ENDED)
    elif button.action in (buttons.GOOD, buttons.BAD):
        await click.whisper(buttons.THANKS if await buttons.vote(app, button) else buttons.GONE)
    elif button.action == buttons.RUN:
        await _run(app, click)
    elif (row := await buttons.find_turn(app, button)) is None:
        await click.whisper(buttons.GONE)
    elif button.action == buttons.AGAIN:
        await _ask_again(click, row)
    else:
        await _choose(app, click, row)


async def _run(app: "App", click: Click) -> None:
    line = to_line(click.button)
    if line is None:
        await click.whisper(buttons.GONE)
    else:
        await _run_line(app, click, line)


async def _run_line(app: "App", click: Click, line: str) -> None:
    await click.acknowledge()
    sender, place, context = click.origin()
    reply = await commands.answer(app, sender, place, text=line, platform_context=context)
    await click.replace(reply.text if reply is not None else buttons.GONE)


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
    if find_command_label(choice) is not None:
        if click.account == click.button.asker:
            await _run_line(app, click, choice)
        else:
            await _refuse(click)
        return
    # The decision names the question's id, because other messages may have followed.
    decision = None if row.confirmation_id is None else Decision(row.confirmation_id, choice == buttons.YES)
    message = replace(click.to_message(row, choice), decision=decision)
    # For a closed question the turn answers, to the person whose question it was.
    with suppress(ConfirmationClosed):
        message = await to_answer_of_asked(app.database, app.settings, message)
    if message.sender.platform_user_id != click.button.asker:
        await _refuse(click)
        return
    await click.store(message, row)


async def _refuse(click: Click) -> None:
    await click.whisper(buttons.NOT_YOURS.format(asker=click.button.asker.rpartition(":")[2]))
