"""Replies to commands that a platform can't post now: kept, and sent as the others are."""

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.base import SUBSTITUTE
from agent.queue.outbox import DIRECT, DeliveryInfo, Reply
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import Place

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App
    from agent.commands import CommandReply

AGAIN_SECONDS = 2

log = get_logger()


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the reply to a person's command goes; `message_id` is None for a command that is no message."""

    adapter: str
    place: Place
    asker: str
    message_id: str | None = None


def to_reply(to: Destination, reply: "CommandReply") -> Reply:
    """Return the reply to a command as one that a platform sends; what one may see is for that person alone."""
    return Reply(
        id=0,
        turn_id=0,
        adapter=to.adapter,
        place=to.place,
        reply_to=f"{DIRECT}{to.asker} {to.message_id or ''}" if reply.is_private else to.message_id,
        content=reply.text,
        files=reply.files,
        choices=tuple(choice.line for choice in reply.choices),
        delivery=DeliveryInfo(asker=to.asker, key_text=SUBSTITUTE if reply.is_secret else None),
    )


async def keep(app: "App", to: Destination, reply: "CommandReply", error: ParleyError) -> None:
    """Have a command's reply delivered later: the platform is away. What one may see goes to that person alone.

    Its buttons go with it, as the lines that they give; the text says how to confirm without them.
    """
    log.warning("command_not_answered", cause=str(error))
    # Only a reply for one person says whose its buttons are.
    reply = replace(reply, is_private=reply.is_private or to.place.is_direct)
    row = to_reply(to, reply).to_row(AGAIN_SECONDS)
    row |= {"status": "pending", "error": str(error)}
    if reply.is_secret:
        # An admin who reads the table could use it before the person does.
        row["content"] = SUBSTITUTE
    with suppress(DatabaseLost):
        async with app.database.transaction() as session:
            await session.execute(statements.store_reply, {"reply": json.dumps(row)})
