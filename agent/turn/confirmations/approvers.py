"""Lets another user approve a call: somebody in the same place with the permission that the question requires.

Permission and pause are checked when they answer, and again when the turn of the answer begins. The approval is treated
as a message of the user who was asked, so that the call runs with that user's permission and budget.
"""

from msgspec.structs import replace

from agent.people.participants import resolve_user, with_roles
from agent.people.pauses import PersonPaused
from agent.turn.confirmations.decisions import lacks_level
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.errors import ApprovalNeeded, ConfirmationClosed
from shared.messages import IncomingMessage, PlatformContext, Sender

statements = load_statements(__file__)


async def to_answer_of_asked(database: Database, message: IncomingMessage) -> IncomingMessage:
    """Return a message that carries a decision as a message of the user who was asked, even if another user sent it.

    A message without a decision is returned unchanged. Raises `ApprovalNeeded` when the sender lacks the required
    permission, `PersonPaused` when an admin has paused the sender, and `ConfirmationClosed` when the question was not
    asked in this place or only the asked user may answer it.
    """
    decision = message.decision
    if decision is None:
        return message
    async with database.transaction() as session:
        row = (await session.execute(statements.find_asked_user, {"id": decision.confirmation_id})).one_or_none()
        if row is None or row.place_key != message.place.key:
            raise ConfirmationClosed
        is_asked = (row.platform, row.platform_user_id) == (message.sender.platform, message.sender.platform_user_id)
        if row.approver_level is None or (is_asked and not decision.approved):
            if not is_asked:
                raise ConfirmationClosed
            return message
        user = await resolve_user(session, message.sender)
        user = await with_roles(
            session, user, sender=message.sender, place=message.place, platform_context=message.platform_context
        )
    if user.is_paused:
        raise PersonPaused
    if lacks_level(user.permission, row.approver_level):
        raise ApprovalNeeded(level=row.approver_level)
    if is_asked:
        return message
    sender = Sender(row.platform, row.platform_user_id, row.platform_username)
    platform_context = replace(PlatformContext.from_row(row.platform_context), earlier=())
    if row.roles is not None:
        platform_context = replace(platform_context, role_ids=tuple(row.roles))
    return replace(
        message, sender=sender, platform_context=platform_context, decision=replace(decision, approved_by=user.id)
    )
