"""A reply that can't be posted in its place: the asker gets a direct message, at most once a day."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from shared.db.statements import load_statements
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App
    from agent.queue.outbox import Reply

NOTICE = "I have an answer for you in <#{channel}>, but {reason}."

log = get_logger()


async def notify_asker(
    app: "App",
    reply: "Reply",
    *,
    asker: str | None,
    reason: str | None,
    channel: str,
    send_direct: Callable[[str, str], Awaitable[object]],
) -> None:
    """Tell the asker why there is no reply in `channel`; without a `reason` nothing is sent."""
    if reason is None or asker is None or reply.place.is_direct:
        return
    parameters = {"platform": reply.place.platform, "channel": reply.place.channel, "asker": asker}
    async with app.database.statement() as session:
        if (await session.execute(statements.was_notified, parameters)).scalar_one():
            return
    try:
        await send_direct(asker, NOTICE.format(channel=channel, reason=reason))
    except (Undeliverable, Unavailable) as error:
        # A person who accepts no direct messages can't be told.
        log.info("notice_not_sent", reply=reply.id, cause=str(error))
