"""The history that the page shows when it is opened again, from the stored events."""

from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.db.statements import load_statements
from shared.messages import Place
from shared.models import InboxMessage
from shared.text import cut

statements = load_statements(__file__)

SHOWN_TURNS = 200
TITLE_CHARS = 80


async def list_due(session: AsyncSession, place: Place, after: int) -> list[int]:
    """Return the inbox ids of what scheduled jobs have sent since the turn `after`, in order."""
    parameters = {"place_key": place.key, "platform": place.platform, "channel": place.channel, "after": after}
    return list((await session.execute(statements.list_due_messages, parameters)).scalars())


async def list_chats(session: AsyncSession, platform: str, prefix: str) -> list[dict[str, Any]]:
    """Return the conversations whose channels begin with the prefix, latest first."""
    rows = (await session.execute(statements.list_chats, {"platform": platform, "prefix": prefix})).all()
    return [
        {"chat": row.chat, "title": cut(row.title or "", TITLE_CHARS), "last_active_at": row.last_active_at.isoformat()}
        for row in rows
    ]


async def list_recent_events(session: AsyncSession, place: Place) -> list[dict[str, Any]]:
    """Return the events of the last turns in a place, in the order of the event stream."""
    parameters = {"platform": place.platform, "channel": place.channel, "limit": SHOWN_TURNS}
    rows = (await session.execute(statements.list_events, parameters)).all()
    return [{"name": row.name, **row.payload, "turn_id": row.turn_id, "seq": row.seq} for row in rows]


async def list_open_messages(session: AsyncSession, place: Place, prefix: str) -> list[dict[str, Any]]:
    """Return the unanswered messages of a place, for the page to follow."""
    query = (
        select(InboxMessage.platform_event_id, InboxMessage.content, InboxMessage.attachments, InboxMessage.turn_id)
        .where(InboxMessage.place_key == place.key, InboxMessage.status.in_(("waiting", "claimed")))
        # What a scheduled job sends was not sent by the page, which could not follow it.
        .where(InboxMessage.due_job.is_(None))
        .order_by(InboxMessage.sent_at, InboxMessage.id)
    )
    return [
        {
            "event_id": row.platform_event_id.removeprefix(prefix),
            "content": row.content,
            "files": [
                {"filename": attachment["filename"], "size_bytes": attachment["size_bytes"]}
                for attachment in row.attachments
            ],
            "turn_id": row.turn_id,
        }
        for row in (await session.execute(query)).all()
    ]
