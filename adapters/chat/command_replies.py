"""Replies to commands on every platform: their buttons, and what happens when the platform is away."""

import json
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from adapters.chat.buttons import AnswerButtons, Button, confirm_buttons
from agent.commands import CommandReply
from agent.commands.base import to_choices
from agent.queue.outbox import DIRECT
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import Place

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

AGAIN_SECONDS = 2
AGAIN = "I could not answer in time; please give the command again."

log = get_logger()


def buttons_of(reply: CommandReply, asker: str, now: datetime) -> AnswerButtons:
    """Return the buttons below a reply, for the person who gave the command."""
    if reply.confirmation is None:
        return AnswerButtons()
    return confirm_buttons(reply.confirmation, asker, now)


async def keep(
    app: "App", place: Place, *, asker: str, reply: CommandReply, message_id: str | None, error: ParleyError
) -> None:
    """Have a reply delivered later: the platform could not take it. What one person may see goes to that person alone.

    Its buttons go with it, as the lines that they give; the text says how to confirm without them.
    """
    reply_to = f"{DIRECT}{asker}:{message_id or ''}" if reply.is_private else message_id
    log.warning("command_not_answered", cause=str(error))
    row = {
        "adapter": place.platform,
        **asdict(place),
        "place_key": place.key,
        "reply_to": reply_to,
        # An admin who reads the table could use it before the person does.
        "content": AGAIN if reply.is_secret else reply.text,
        "choices": [choice.line for choice in reply.choices],
        "files": [asdict(file) for file in reply.files],
        "error": str(error),
        "lease": AGAIN_SECONDS,
    }
    with suppress(DatabaseLost):
        async with app.database.transaction() as session:
            await session.execute(statements.store_reply, {"reply": json.dumps(row)})


def to_line(button: Button) -> str | None:
    """Return the command that a click on such a button gives; None for a number that no button has."""
    choices = to_choices(button.turn_id)
    return choices[button.index].line if button.index < len(choices) else None
