"""Buttons below answers, on every platform. A button's id contains everything, so any process can handle a click.

An id is bound to the asker and expires; what it names is looked up again for each click.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from agent.commands.base import find_confirmation, to_choices
from shared.messages import find_command_label
from shared.text import MAX_ID

if TYPE_CHECKING:
    from agent.commands import CommandReply
    from agent.queue.outbox import Reply

MARK = "parley"
STOP, AGAIN, CHOICE, GOOD, BAD, RUN = ACTIONS = "stop", "again", "choice", "good", "bad", "run"
VOTES = ((GOOD, "👍"), (BAD, "👎"))
LASTS = timedelta(hours=24)
# As long as the confirmation of a command.
COMMAND_LASTS = timedelta(minutes=10)
YES, NO = "yes", "no"
STOP_LABEL, AGAIN_EMOJI, EDITED_LABEL = "Stop", "🔄", "Answer the edited message"


class Button(Struct, frozen=True):
    """The action of a button, on a turn, for the person who asked; of `RUN`, on a command to be confirmed."""

    action: str
    turn_id: int
    asker: str
    expires: int
    index: int = 0

    def to_id(self) -> str:
        """Return the button's id."""
        return f"{MARK}:{self.action}:{self.turn_id:x}:{self.asker}:{self.expires:x}:{self.index}"

    def is_over(self, now: datetime) -> bool:
        """Return whether the button has expired."""
        return now.timestamp() > self.expires


class ShownButton(Struct, frozen=True):
    """A button with its label. `kind`: its style; `is_emoji`: the label is one emoji."""

    button: Button
    label: str
    kind: Literal["choice", "main", "plain", "yes", "no"] = "plain"
    is_emoji: bool = False


class AnswerButtons(Struct, frozen=True):
    """The buttons below an answer: choices, and actions."""

    choices: Sequence[ShownButton] = ()
    actions: Sequence[ShownButton] = ()


class TurnButtons(Struct, frozen=True):
    """Creates the buttons of one turn, for the person who asked."""

    turn_id: int
    asker: str
    now: datetime

    def stop(self) -> ShownButton:
        """Return the button below live text."""
        return ShownButton(self._make(STOP), STOP_LABEL, "no")

    def answer(
        self, choices: Sequence[str] = (), *, status: str = "answered", was_edited: bool = False
    ) -> AnswerButtons:
        """Return the buttons below an answer; `was_edited`: what was asked was edited since, so no choice counts."""
        again = self._make(AGAIN)
        if was_edited:
            return AnswerButtons((), [ShownButton(again, EDITED_LABEL, "main")])
        choice_buttons = [
            ShownButton(self._make(CHOICE, index), to_label(choice), to_kind(choice))
            for index, choice in enumerate(choices)
        ]
        if choice_buttons or status == "refused":
            # A question for confirmation has choices and no votes, and a refusal would be repeated by "again".
            return AnswerButtons(choice_buttons)
        votes = [ShownButton(self._make(action), emoji, is_emoji=True) for action, emoji in VOTES]
        again_shown = ShownButton(again, AGAIN_EMOJI, is_emoji=True)
        return AnswerButtons((), [again_shown, *(votes if status == "answered" else ())])

    def _make(self, action: str, index: int = 0) -> Button:
        return Button(action, self.turn_id, self.asker, expires=int((self.now + LASTS).timestamp()), index=index)


def buttons_below(reply: "Reply", now: datetime) -> AnswerButtons:
    """Return the buttons below a reply; one without a turn is the late answer to a command, perhaps to be confirmed."""
    delivery = reply.delivery
    if delivery.asker is None:
        return AnswerButtons()
    if not reply.turn_id:
        said_at = now - timedelta(seconds=reply.age)
        numbers = [number for choice in reply.choices if (number := find_confirmation(choice)) is not None]
        return confirm_buttons(numbers[0], delivery.asker, said_at) if numbers else AnswerButtons()
    turn_buttons = TurnButtons(reply.turn_id, delivery.asker, now)
    return turn_buttons.answer(reply.choices, status=delivery.status, was_edited=delivery.was_edited)


def confirm_buttons(confirmation: int, asker: str, said_at: datetime) -> AnswerButtons:
    """Return the buttons that confirm a command and drop it, below what asks for this."""
    expires = int((said_at + COMMAND_LASTS).timestamp())
    yes, no = (Button(RUN, confirmation, asker, expires=expires, index=index) for index in range(2))
    agree, refuse = to_choices(confirmation)
    return AnswerButtons([ShownButton(yes, agree.label, "yes"), ShownButton(no, refuse.label, "no")])


def buttons_of(reply: "CommandReply", asker: str, now: datetime) -> AnswerButtons:
    """Return the buttons below the reply to a command, for the person who gave the command."""
    if reply.confirmation is None:
        return AnswerButtons()
    return confirm_buttons(reply.confirmation, asker, now)


def to_line(button: Button) -> str | None:
    """Return the command that a click on such a button gives; None for a number that no button has."""
    choices = to_choices(button.turn_id)
    return choices[button.index].line if button.index < len(choices) else None


def to_kind(choice: str) -> Literal["choice", "yes", "no"]:
    """Return the style of a choice: yes and no answer a question for confirmation."""
    return "yes" if choice == YES else "no" if choice == NO else "choice"


def to_label(choice: str) -> str:
    """Return the label of a choice."""
    if choice in (YES, NO):
        return choice.capitalize()
    return find_command_label(choice) or " ".join(choice.split()) or "…"


def find_button(custom_id: str) -> Button | None:
    """Return the button with this id; None if the id is not one of ours."""
    head, tail = custom_id.split(":", 3), custom_id.rsplit(":", 2)
    if len(head) != 4 or len(tail) != 3 or head[0] != MARK or head[1] not in ACTIONS:
        return None
    # The account is between the other fields, because it may contain a colon.
    asker = head[3].removesuffix(f":{tail[1]}:{tail[2]}")
    try:
        button = Button(head[1], int(head[2], 16), asker, expires=int(tail[1], 16), index=int(tail[2]))
    except ValueError:
        return None
    return button if 0 < button.turn_id <= MAX_ID and 0 <= button.index < MAX_ID else None
