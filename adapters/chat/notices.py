"""What is kept of answers that could not be written where they belong: their asker is told of that once a day."""

from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from agent.app import App
    from agent.queue.outbox import Reply

NOTICE = "I have an answer for you in <#{channel}>, but {reason}."
TOLD = text("""
SELECT EXISTS (
    SELECT FROM outbox JOIN inbox ON inbox.turn_id = outbox.turn_id
    WHERE outbox.status = 'failed' AND outbox.platform = :platform AND outbox.platform_channel_id = :channel
      AND inbox.platform_user_id = :asker AND outbox.created_at > now() - interval '1 day'
)
""")


async def was_told(app: "App", reply: "Reply", asker: str) -> bool:
    """Return whether the asker of this reply was told today that nothing can be written in its channel."""
    given = {"platform": reply.place.platform, "channel": reply.place.channel, "asker": asker}
    async with app.database.statement() as session:
        return bool((await session.execute(TOLD, given)).scalar_one())
