"""Makes a notice to a person, a message through the inbox that is answered with the notice and without a model."""

from collections.abc import Sequence

from agent.prompts import prompts
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import DueJob, IncomingMessage, Place, Sender

statements = load_statements(__file__)

# Adapters whose callers read answers only to what they have asked.
UNREAD = ("http", "a2a", "terminal")


async def list_owners(session: Session) -> list[int]:
    """Return the ids of the installation's owners."""
    return list((await session.execute(statements.list_owners)).scalars())


async def list_approvers(session: Session) -> list[int]:
    """Return the ids of the owners and admins who are not paused, owners first."""
    return list((await session.execute(statements.list_approvers)).scalars())


async def to_notice(
    session: Session, user_id: int, text: str, *, event_id: str, choices: Sequence[str] = ()
) -> IncomingMessage | None:
    """Return the message that tells a person something in the direct conversation that they used last, if any.

    `choices` are commands, shown as buttons. The time is added to `event_id`: when a backup is restored, the numbers in
    it begin again, and a platform would take the notice for one that it has.
    """
    parameters = {"user_id": user_id, "unread": list(UNREAD)}
    row = (await session.execute(statements.find_last_place, parameters)).one_or_none()
    if row is None:
        return None
    return IncomingMessage(
        adapter=row.adapter,
        sender=Sender(row.platform, row.platform_user_id, row.platform_username),
        place=Place.from_row(row),
        event_id=f"{event_id}:{user_id}:{row.told_at.timestamp()}",
        content=prompts().budgets.asked_for,
        sent_at=None,
        due_job=DueJob(0, text, choices=tuple(choices)),
    )
