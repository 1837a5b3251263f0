"""Fires due jobs: each becomes a message of its person in its conversation, stored in the transaction that moves it on.

A worker locks the job's row, so that of several workers one fires it. The message's event id is made of the job and the
due time, so that one due time never gives two messages. What was missed while no worker ran is made up for once, late.
"""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from agent.people.participants import ResolvedUser, find_user, with_roles
from agent.prompts import prompts
from agent.queue.inbox import accept_within
from shared.dates.zones import resolve_zone
from shared.db.database import Database
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import ToolError
from shared.log import get_logger
from shared.messages import Author, DueJob, IncomingMessage, Permission, Place, PlatformContext, Sender
from shared.schedules.jobs import to_timing

statements = load_statements(__file__)

# A job that is due for longer is marked late.
LATE_SECONDS = 60
AT_ONCE = 100


log = get_logger()


class DueRow(Struct, frozen=True):
    """A due job with its row locked, and its person with the rights of this moment."""

    row: Any
    user: ResolvedUser
    message: IncomingMessage

    @property
    def zone(self) -> ZoneInfo:
        """Return the person's time zone."""
        return resolve_zone(self.user.time_zone)


async def fire_due(database: Database) -> int:
    """Send the jobs that are due, each in a transaction of its own; return how many."""
    async with database.transaction() as session:
        job_ids = (await session.execute(statements.list_due_jobs, {"limit": AT_ONCE})).scalars()
    count = 0
    for job_id in job_ids:
        async with database.transaction() as session:
            due = await lock_due(session, job_id)
            if due is None:
                continue
            try:
                timing = to_timing(due.row)
            except ToolError as error:
                await pause(session, job_id, str(error))
                continue
            next_due_at = timing.next_after(due.row.now) if timing.is_repeated else None
            await accept_within(session, to_message(due))
            await session.execute(statements.move_job_on, {"id": job_id, "next_due_at": next_due_at})
        log.info("scheduled_job_fired", job=job_id, late=is_late(due.row), last=next_due_at is None)
        count += 1
    return count


async def lock_due(session: Session, job_id: int) -> DueRow | None:
    """Lock a job and return it with its person; None if it is not due or another worker has it.

    A job whose person has lost the account or the permission that it needs is paused.
    """
    row = (await session.execute(statements.lock_job, {"id": job_id})).one_or_none()
    if row is None:
        return None
    message = IncomingMessage(
        adapter=row.adapter,
        sender=Sender(row.platform, row.platform_user_id, row.platform_username),
        place=Place.from_row(row),
        event_id=event_id(row.id, row.next_due_at),
        content="",
        sent_at=None,
        platform_context=PlatformContext(role_ids=None if row.role_ids is None else tuple(row.role_ids)),
        due_job=DueJob(row.id),
    )
    user = await find_user(session, message.sender) if row.has_account else None
    if user is None:
        await pause(session, job_id, "The account that it was made with is no longer linked.")
        return None
    context = message.platform_context
    user = await with_roles(session, user, sender=message.sender, place=message.place, platform_context=context)
    if user.permission < Permission.from_label(row.requires):
        await pause(session, job_id, f"It needs the permission {row.requires}.")
        return None
    return DueRow(row, user, message)


async def pause(session: Session, job_id: int, reason: str) -> None:
    """Pause a job that can't be run; its person sees the reason in the list of jobs."""
    await session.execute(statements.pause_job, {"id": job_id, "error": reason})
    log.warning("scheduled_job_paused", job=job_id)


def is_late(row: Any) -> bool:
    """Return whether the job should have been sent earlier."""
    return bool((row.now - row.next_due_at).total_seconds() > LATE_SECONDS)


def to_message(due: DueRow, note: str = "", *, author: Author = "person") -> IncomingMessage:
    """Return the message of a due job; `note` is added to its text, `author` says who may have written that."""
    row, texts = due.row, prompts().schedules
    late = texts.late.format(due=row.next_due_at.astimezone(due.zone), zone=due.zone) if is_late(row) else ""
    others = texts.of_others if "stranger" in (row.author, author) else ""
    reminder = "\n\n".join(part for part in (row.content, note) if part)
    if row.action == "resume_conversation":
        content = texts.due.format(job=row.id, others=others, late=late and f" {late}", text=reminder)
        return replace(due.message, content=content)
    template = texts.notice if row.is_direct else texts.notice_for
    notice = template.format(name=due.user.name, text=reminder) + (f"\n\n{late}" if late else "")
    content = texts.reminded.format(job=row.id, others=others)
    return replace(due.message, content=content, due_job=DueJob(row.id, notice))


def event_id(job_id: int, due_at: datetime) -> str:
    """Return the event id of a job at one due time."""
    return f"job:{job_id}:{due_at.isoformat()}"
