"""Lets another user approve a call: somebody in the same place with the permission that the question requires.

The permission is checked when they answer. The approval is then treated as a message of the user who was asked, so
that the call runs with that user's permission and budget.
"""

from dataclasses import replace
from typing import Any

from sqlalchemy import text

from agent.people.participants import ResolvedUser, resolve_user, with_roles
from agent.turn.confirmations.decisions import lacks_level
from shared.db.database import Database
from shared.errors import ApprovalNeeded, ConfirmationClosed
from shared.messages import Decision, IncomingMessage, PlatformContext, Sender
from shared.settings import Settings

ASKED = text("""
SELECT asked.approver_level, inbox.place_key, inbox.platform, inbox.platform_user_id, inbox.platform_username,
       inbox.platform_context
FROM confirmations AS asked JOIN inbox ON inbox.turn_id = asked.turn_id
WHERE asked.id = :id ORDER BY inbox.id DESC LIMIT 1
""")


async def to_answer_of_asked(database: Database, settings: Settings, given: IncomingMessage) -> IncomingMessage:
    """Return a message that carries a decision as a message of the user who was asked, even if another user sent it.

    A message without a decision is returned unchanged. Raises `ApprovalNeeded` when the sender lacks the required
    permission, and `ConfirmationClosed` when the question was not asked in this place or only the asked user may
    answer it.
    """
    decision = given.decision
    if decision is None:
        return given
    async with database.transaction() as session:
        row = (await session.execute(ASKED, {"id": decision.confirmation_id})).one_or_none()
        if row is None or row.place_key != given.place.key:
            raise ConfirmationClosed
        is_asked = (row.platform, row.platform_user_id) == (given.sender.platform, given.sender.platform_user_id)
        if row.approver_level is None or (is_asked and not decision.approved):
            if not is_asked:
                raise ConfirmationClosed
            return given
        user = await resolve_user(session, given.sender, settings.default_guest_token_budget)
        user = await with_roles(
            session, user, sender=given.sender, place=given.place, platform_context=given.platform_context
        )
    if lacks_level(user.permission, row.approver_level):
        raise ApprovalNeeded(level=row.approver_level)
    return given if is_asked else _in_place_of(row, user, given=given, decision=decision)


def _in_place_of(row: Any, user: ResolvedUser, given: IncomingMessage, decision: Decision) -> IncomingMessage:
    asked = Sender(row.platform, row.platform_user_id, row.platform_username)
    # The roles of the asked user are those from the time of the question.
    platform_context = replace(PlatformContext.from_row(row.platform_context), earlier=())
    return replace(
        given, sender=asked, platform_context=platform_context, decision=replace(decision, approved_by=user.id)
    )
