"""Replies to commands that a platform can't post now, or whose process dies: kept, and sent as the others are."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from adapters.base import SUBSTITUTE
from agent.commands import CommandReply, match_command
from agent.queue.inbox import accept_answered
from agent.queue.outbox import DIRECT, DeliveryInfo, Reply
from shared.db.database import DatabaseLost
from shared.db.statements import load_statements
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import IncomingMessage, Place
from shared.tasks import shield_until_done

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

# Longer than a command lasts, even where the database is lost meanwhile.
AGAIN_SECONDS, RUN_SECONDS = 2, 180
INTERRUPTED = "I was interrupted at `/{name}`; please look whether that was done, and give the command again if not."

log = get_logger()


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the reply to a person's command goes; `message_id` is None for a command that is no message.

    `note`: the row that `begin_answer` has made for it.
    """

    adapter: str
    place: Place
    asker: str
    message_id: str | None = None
    note: int | None = None


def to_reply(to: Destination, reply: CommandReply) -> Reply:
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


async def begin_command(app: "App", arrival: IncomingMessage, to: Destination, *, line: str) -> Destination | None:
    """Note that a command has arrived; return its destination with the note, None if the same has arrived before.

    If this process dies before the command is `answered`, the person is told that it was interrupted.
    """
    match = match_command(line)
    sentence = CommandReply(INTERRUPTED.format(name=match[1].lower() if match else ""), is_private=not to.message_id)
    return await begin_answer(app, arrival, to, reply=sentence)


async def begin_answer(
    app: "App", arrival: IncomingMessage, to: Destination, *, reply: CommandReply
) -> Destination | None:
    """Note that something has arrived as `begin_command` does; if this process dies, the reply is sent all the same."""
    # In a line of its own: no other reply waits for it.
    row = _to_row(to, reply, RUN_SECONDS) | {"place_key": f"command {arrival.event_id}"}
    async with app.database.transaction() as session:
        if not await accept_answered(session, arrival):
            return None
        note = (await session.execute(statements.store_reply, {"reply": json.dumps(row)})).scalar_one()
    return replace(to, note=note)


@asynccontextmanager
async def answered(app: "App", reply: CommandReply, to: Destination) -> AsyncIterator[None]:
    """Show the reply to a command that has begun in the block; if this process dies meanwhile, another one does."""
    row = json.dumps(_to_row(to, reply, RUN_SECONDS))

    async def execute(statement: Any, **values: Any) -> None:
        with suppress(DatabaseLost):
            async with app.database.statement() as session:
                await session.execute(statement, {"id": to.note} | values)

    await execute(statements.change_reply, reply=row)
    try:
        yield
    finally:
        await shield_until_done(execute(statements.remove_reply))


async def keep(app: "App", to: Destination, reply: CommandReply, error: ParleyError) -> None:
    """Have a command's reply delivered later: the platform is away. What one may see goes to that person alone.

    Its buttons go with it, as the lines that they give; the text says how to confirm without them.
    """
    log.warning("command_not_answered", cause=str(error))
    failure: dict[str, Any] = {"error": str(error)}
    with suppress(DatabaseLost):
        async with app.database.transaction() as session:
            if to.note is None:
                row = _to_row(to, reply, AGAIN_SECONDS) | failure
                await session.execute(statements.store_reply, {"reply": json.dumps(row)})
            else:
                when = {"seconds": AGAIN_SECONDS, "place_key": to.place.key}
                await session.execute(statements.keep_reply, {"id": to.note} | when | failure)


def _to_row(to: Destination, reply: CommandReply, seconds: float) -> dict[str, Any]:
    # Only a reply for one person says whose its buttons are.
    reply = replace(reply, is_private=reply.is_private or to.place.is_direct)
    row = to_reply(to, reply).to_row(seconds) | {"status": "pending"}
    # An admin who reads the table could use it before the person does.
    return row | {"content": SUBSTITUTE} if reply.is_secret else row
