"""Replies to commands that a platform can't post now, or whose process dies: kept, and sent as the others are.

Each command has a note, which is a row of `outbox`: what is said if its process dies, from when it is run until it is
answered. It is no reply before its lease is over, so no worker is started for it and no other reply waits.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from adapters.base import STORE_SECONDS, SUBSTITUTE
from agent.commands import CommandReply, answer, match_command
from agent.queue.inbox import accept_answered
from agent.queue.outbox import DIRECT, DeliveryInfo, Reply
from shared.db.database import DatabaseLost, retry_on_lost_db
from shared.db.statements import load_statements
from shared.errors import ParleyError
from shared.log import get_logger
from shared.messages import IncomingMessage, Place
from shared.tasks import repeated, shield_until_done

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

# The lease of a note is longer than the database is waited for.
AGAIN_SECONDS, LEASE_SECONDS, RENEW_SECONDS = 2, 180, 4
INTERRUPTED = "I was interrupted at `/{name}`; please look whether that was done, and give the command again if not."

log = get_logger()


class Destination(Struct, frozen=True):
    """Where the reply to a person's command goes.

    `message_id` is None for a command that is no message; then `response` may name what it is answered by, for which
    the platform makes one message of several tries. `note`: the row that `begin_answer` has made for it.
    """

    adapter: str
    place: Place
    asker: str
    message_id: str | None = None
    response: str | None = None
    note: int | None = None


def to_reply(to: Destination, reply: CommandReply) -> Reply:
    """Return the reply to a command as one that a platform sends; what one may see is for that person alone."""
    message = to.message_id or to.response
    return Reply(
        id=0,
        turn_id=0,
        adapter=to.adapter,
        place=to.place,
        reply_to=f"{DIRECT}{to.asker} {message or ''}" if reply.is_private else message,
        content=reply.text,
        files=reply.files,
        choices=tuple(choice.line for choice in reply.choices),
        delivery=DeliveryInfo(asker=to.asker, key_text=SUBSTITUTE if reply.is_secret else None),
    )


async def run_command(
    app: "App",
    arrival: IncomingMessage,
    to: Destination,
    *,
    line: str,
    run: Callable[[], Awaitable[CommandReply | None]] | None = None,
    render: Callable[[str], str] = str,
) -> tuple[Destination, CommandReply] | None:
    """Run a command once; return its reply and the destination with its note, None if the same has arrived before.

    `run`: how, if not as everywhere. If this process dies before the command is `answered`, the person is told that it
    was interrupted, in a sentence that `render` puts in the platform's words. What is said of an error is a reply, too.
    """

    async def give() -> CommandReply | None:
        context, adapter = arrival.platform_context, arrival.adapter
        return await answer(app, arrival.sender, arrival.place, text=line, platform_context=context, adapter=adapter)

    match = match_command(line)
    name = match[1].lower() if match else ""
    sentence = render(INTERRUPTED.format(name=name))
    begun = await begin_answer(app, arrival, to, reply=CommandReply(sentence, is_private=not to.message_id))
    if begun is None:
        return None
    async with _renewed(app, begun):
        try:
            reply = await retry_on_lost_db(run or give, STORE_SECONDS)
        except ParleyError as error:
            log.warning("command_failed", cause=str(error))
            reply = CommandReply(str(error), is_private=True)
    return begun, reply or CommandReply(f"There is no command {name or line}.", is_private=True)


async def begin_answer(
    app: "App", arrival: IncomingMessage, to: Destination, *, reply: CommandReply
) -> Destination | None:
    """Note what is said of an arrival if this process dies; None if the same has arrived before."""
    row = json.dumps(_to_row(to, reply, "noted", seconds=LEASE_SECONDS))
    # By this an answer for all is found when the person is erased.
    arrival = replace(arrival, platform_message_id=to.response or arrival.platform_message_id)
    async with app.database.transaction() as session:
        if not await accept_answered(session, arrival):
            return None
        note = (await session.execute(statements.store_reply, {"reply": row})).scalar_one()
    return replace(to, note=note)


@asynccontextmanager
async def answered(app: "App", reply: CommandReply, to: Destination) -> AsyncIterator[bool]:
    """Show the reply to a command that has begun in the block; if it does not end as it should, another process does.

    False if another process has said that it was interrupted, as this one was frozen: then nothing else is said.
    While the database is lost, what was shown may be said of again: the interruption, or the reply itself where the
    platform does not recognise it.
    """
    row = json.dumps(_to_row(to, reply, "noted", seconds=LEASE_SECONDS))
    with suppress(DatabaseLost):
        async with app.database.statement() as session:
            is_taken = (await session.execute(statements.change_note, {"id": to.note, "reply": row})).scalar_one()
        if is_taken:
            log.info("reply_sent_by_another_process", reply=to.note)
            yield False
            return
    async with _renewed(app, to):
        yield True
    with suppress(DatabaseLost):
        await retry_on_lost_db(lambda: shield_until_done(_execute(app, to, statements.remove_note)), STORE_SECONDS)


async def keep(app: "App", to: Destination, reply: CommandReply, error: ParleyError) -> None:
    """Have a command's reply delivered later: the platform is away. What one may see goes to that person alone.

    Its buttons go with it, as the lines that they give; the text says how to confirm without them. A note that can't be
    changed is sent as well, when its lease is over: then the database is lost, and this raises.
    """
    log.warning("command_not_answered", cause=str(error))
    failure: dict[str, Any] = {"error": str(error)}
    if to.note is not None:
        await _execute(app, to, statements.keep_note, seconds=AGAIN_SECONDS, **failure)
        return
    row = json.dumps(_to_row(to, reply, "pending", seconds=AGAIN_SECONDS) | failure)
    with suppress(DatabaseLost):
        async with app.database.statement() as session:
            await session.execute(statements.store_reply, {"reply": row})


def _renewed(app: "App", to: Destination) -> AbstractAsyncContextManager[None]:
    async def renew() -> None:
        with suppress(DatabaseLost):
            await _execute(app, to, statements.renew_note, seconds=LEASE_SECONDS)

    return repeated(renew, RENEW_SECONDS)


async def _execute(app: "App", to: Destination, statement: Any, **values: Any) -> None:
    async with app.database.statement() as session:
        await session.execute(statement, {"id": to.note} | values)


def _to_row(to: Destination, reply: CommandReply, status: str, *, seconds: float) -> dict[str, Any]:
    # Only a reply for one person says whose its buttons are.
    reply = replace(reply, is_private=reply.is_private or to.place.is_direct)
    row = to_reply(to, reply).to_row(seconds) | {"status": status}
    # An admin who reads the table could use it before the person does.
    return row | {"content": SUBSTITUTE} if reply.is_secret else row
