"""Sends a notice to a person, as a message through the inbox that is answered with the notice and without a model."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from agent.prompts import prompts
from agent.queue.inbox import accept_within
from shared.messages import DueJob, IncomingMessage, Place, Sender

# Adapters whose callers read answers only to what they have asked.
UNREAD = ("http", "a2a", "terminal")

# Where a person last wrote directly, with the account and the adapter.
FIND = text("""
SELECT inbox.adapter, inbox.platform_user_id, inbox.platform_username, place.platform, place.platform_server_id,
       place.platform_channel_id, place.platform_thread_id, place.is_direct
FROM conversations AS place JOIN turns ON turns.conversation_id = place.id JOIN inbox ON inbox.turn_id = turns.id
JOIN user_platform_links AS link ON link.user_id = :user_id AND link.platform = inbox.platform
    AND link.platform_user_id = inbox.platform_user_id
WHERE place.is_direct AND place.user_id = :user_id AND inbox.adapter <> ALL(:unread)
ORDER BY turns.id DESC LIMIT 1
""")
APPROVERS = text("""
SELECT id FROM admin.users WHERE permission IN ('admin', 'owner') AND paused_at IS NULL ORDER BY permission DESC, id
""")
OWNERS = text("SELECT id FROM admin.users WHERE permission = 'owner' ORDER BY id")


async def list_owners(session: AsyncSession) -> list[int]:
    """Return the ids of the installation's owners."""
    return list((await session.execute(OWNERS)).scalars().all())


async def list_approvers(session: AsyncSession) -> list[int]:
    """Return the ids of the owners and admins who are not paused, owners first."""
    return list((await session.execute(APPROVERS)).scalars().all())


async def notify(
    session: AsyncSession, user_id: int, notice: str, *, event_id: str, choices: Sequence[str] = ()
) -> bool:
    """Tell a person something in the direct conversation that they used last; return False if there is none.

    `choices` are commands, shown as buttons. The notice is sent once for an `event_id`.
    """
    parameters = {"user_id": user_id, "unread": list(UNREAD)}
    row = (await session.execute(FIND, parameters)).one_or_none()
    if row is None:
        return False
    await accept_within(session, _to_message(row, notice, event_id=f"{event_id}:{user_id}", choices=choices))
    return True


def _to_message(row: Any, notice: str, *, event_id: str, choices: Sequence[str]) -> IncomingMessage:
    return IncomingMessage(
        adapter=row.adapter,
        sender=Sender(row.platform, row.platform_user_id, row.platform_username),
        place=Place.from_row(row),
        event_id=event_id,
        content=prompts().budgets.asked_for,
        sent_at=None,
        due_job=DueJob(0, notice, choices=tuple(choices)),
    )
