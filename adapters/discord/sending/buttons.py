"""The buttons below messages that are posted: changed by a click, by an edit or a deletion of the question."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import text

from adapters.chat.buttons import CHOICE, AnswerButtons, Button, ShownButton, to_label
from adapters.discord.sending.reply import GREEN, GREY, in_rows, to_component, to_rows
from adapters.discord.transport.rest import Json, Refused, Rest, insist
from shared.db.database import Database
from shared.errors import Unavailable
from shared.log import get_logger

# A live message may be posted only later: it is looked for again after these seconds, until the turn ends.
LATER_SECONDS = 1.0

RUNNING = text("""
SELECT turns.live_message_id, coalesce(inbox.platform_thread_id, inbox.platform_channel_id) AS channel_id
FROM inbox JOIN turns ON turns.id = inbox.turn_id
WHERE inbox.platform = 'discord' AND inbox.platform_event_id = ANY(:message_ids) AND turns.status = 'running'
""")

log = get_logger()


def chosen_rows(choices: Sequence[str], index: int) -> list[Json]:
    """Return the rows after a choice, all disabled."""
    buttons = [
        ShownButton(Button(CHOICE, 0, "", expires=0, index=number), to_label(each))
        for number, each in enumerate(choices)
    ]
    styles = [GREEN if number == index else GREY for number in range(len(choices))]
    drawn = zip(map(to_component, buttons), styles, strict=True)
    return in_rows([each | {"style": style, "disabled": True} for each, style in drawn])


async def replace_buttons(rest: Rest, answer: Any, shown: AnswerButtons) -> None:
    """Replace the buttons of a posted answer; `answer` is its outbox row."""
    channel_id = answer.platform_thread_id or answer.platform_channel_id
    await _change(rest, channel_id, answer.platform_message_id, rows=to_rows(shown))


async def remove_stop_buttons(database: Database, rest: Rest, message_ids: Collection[int]) -> None:
    """Remove the button from the live messages that answer these deleted messages: nobody is asked to stop any more."""
    given, removed = {"message_ids": [str(each) for each in message_ids]}, set[str]()
    while True:
        async with database.statement() as session:
            rows = (await session.execute(RUNNING, given)).all()
        left = [row for row in rows if row.live_message_id not in removed]
        if not left:
            return
        for row in left:
            if row.live_message_id is not None:
                removed.add(row.live_message_id)
                await _change(rest, row.channel_id, row.live_message_id, rows=[])
        await asyncio.sleep(LATER_SECONDS)


async def _change(rest: Rest, channel_id: str, message_id: str, rows: Sequence[Json]) -> None:
    path, body = "/channels/{channel_id}/messages/{message_id}", {"components": list(rows)}
    try:
        await insist(lambda: rest.call("PATCH", path, body, channel_id=channel_id, message_id=message_id))
    except (Refused, Unavailable) as error:
        # The message may be deleted, or visible to its asker only.
        log.info("buttons_not_changed", cause=str(error))
