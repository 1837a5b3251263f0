"""The live message of a question that was deleted: its answer goes on, but nobody is asked to stop it any more."""

import asyncio
from collections.abc import Collection

from sqlalchemy import text

from adapters.discord.transport.rest import Refused, Rest
from shared.db.database import Database
from shared.errors import Unavailable
from shared.log import get_logger

# A live message may just be being posted: it is looked for again after these seconds.
LATER_SECONDS = (0.0, 1.0, 2.0, 4.0)

RUNNING = text("""
SELECT turns.live_message_id, coalesce(inbox.platform_thread_id, inbox.platform_channel_id) AS channel_id
FROM inbox JOIN turns ON turns.id = inbox.turn_id
WHERE inbox.platform = 'discord' AND inbox.platform_event_id = ANY(:message_ids) AND turns.status = 'running'
""")

log = get_logger()


async def remove_stop_buttons(database: Database, rest: Rest, message_ids: Collection[int]) -> None:
    """Remove the button from the live messages of the turns that answer these messages."""
    removed: set[str] = set()
    for seconds in LATER_SECONDS:
        await asyncio.sleep(seconds)
        async with database.statement() as session:
            rows = (await session.execute(RUNNING, {"message_ids": [str(each) for each in message_ids]})).all()
        if not rows:
            return
        for row in rows:
            if row.live_message_id is not None and row.live_message_id not in removed:
                removed.add(row.live_message_id)
                await _remove(rest, row.channel_id, row.live_message_id)


async def _remove(rest: Rest, channel_id: str, message_id: str) -> None:
    path = "/channels/{channel_id}/messages/{message_id}"
    try:
        await rest.call("PATCH", path, {"components": []}, channel_id=channel_id, message_id=message_id)
    except (Refused, Unavailable) as error:
        log.info("stop_button_not_removed", cause=str(error))
