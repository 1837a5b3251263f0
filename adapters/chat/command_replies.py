"""The buttons below replies to commands, on every platform: they confirm a command that deletes something."""

from datetime import datetime, timedelta

from adapters.chat.buttons import RUN, AnswerButtons, Button, ShownButton
from agent.commands import CommandReply
from agent.commands.base import to_choices

# As long as a confirmation lasts.
LASTS = timedelta(minutes=10)


def buttons_of(reply: CommandReply, asker: str, now: datetime) -> AnswerButtons:
    """Return the buttons below a reply, for the person who gave the command."""
    if reply.confirmation is None:
        return AnswerButtons()
    expires = int((now + LASTS).timestamp())
    yes, no = (Button(RUN, reply.confirmation, asker, expires=expires, index=index) for index in range(2))
    agree, refuse = reply.choices
    return AnswerButtons([ShownButton(yes, agree.label, "yes"), ShownButton(no, refuse.label, "no")])


def to_line(button: Button) -> str | None:
    """Return the command that a click on such a button gives; None for a number that no button has."""
    choices = to_choices(button.turn_id)
    return choices[button.index].line if button.index < len(choices) else None
