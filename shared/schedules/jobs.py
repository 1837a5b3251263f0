"""The scheduled jobs of a person: made, listed, cancelled, paused. What is due is sent by `agent/commands/schedules`.

Which jobs a person sees follows the rule of files and memories: in a direct message all of them, elsewhere those of the
same server. Another person's job is answered like one that does not exist.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from shared.clock import Clock
from shared.dates.zones import resolve_zone
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.errors import NotFound, ToolError
from shared.messages import AGENT_ADAPTERS, Author, Permission, Place
from shared.schedules.conditions import Condition, check_condition
from shared.schedules.timing import Timing, at_interval, by_cron, once
from shared.text import MAX_ID, clean, cut

if TYPE_CHECKING:
    from shared.db.database import Database
    from shared.settings import Settings

statements = load_statements(__file__)

Action = Literal["notify", "resume_conversation"]
Status = Literal["active", "paused", "finished", "cancelled"]
OPEN: tuple[Status, ...] = ("active", "paused")

# The columns of a job without a check.
NO_CHECK = {"check_tool": None, "check_arguments": "{}", "condition": None, "expires_at": None}
MAX_TEXT_CHARS = 4000
MAX_CHECKED = timedelta(days=92)


class JobLimits(Struct, frozen=True):
    """How many open jobs a person may have, and the least seconds between two due times of one."""

    most: int
    least_seconds: int

    @classmethod
    def of(cls, settings: "Settings") -> "JobLimits":
        """Return the limits that the settings give."""
        return cls(settings.max_scheduled_jobs_per_person, settings.min_schedule_seconds)


class Check(Struct, frozen=True):
    """What a polling job looks at: the result of a tool (`module.tool`), until it fulfils the condition or expires."""

    tool: str
    arguments: Mapping[str, Any]
    condition: Condition
    expires_at: datetime

    def to_parameters(self) -> dict[str, Any]:
        """Return the columns of a job that has it, JSON as text."""
        return {
            "check_tool": self.tool,
            "check_arguments": json.dumps(dict(self.arguments)),
            "condition": json.dumps(self.condition.to_row()),
            "expires_at": self.expires_at,
        }


class NewJob(Struct, frozen=True):
    """A job to be made. With a `check` its timing says when that is made."""

    text: str
    timing: Timing
    action: Action = "notify"
    check: Check | None = None
    module: str = ""
    requires: Permission = Permission.USER


class Job(Struct, frozen=True):
    """A job as its person sees it; `error` is why it was paused, or why its last check failed.

    `author` says who may have written its text.
    """

    id: int
    text: str
    timing: Timing
    action: Action
    status: Status
    next_due_at: datetime | None
    check_tool: str | None = None
    expires_at: datetime | None = None
    error: str | None = None
    author: Author = "person"


class Origin(Struct, frozen=True):
    """The adapter that sends what a job says, and its person's account there."""

    adapter: str
    platform_user_id: str


class JobsOfUser(Struct, frozen=True):
    """The jobs of one person that are visible in one place.

    New ones speak in the conversation, through the adapter of `origin`; if it is None, the one of the turn is taken.
    `author` says who may have written their texts.
    """

    database: "Database"
    clock: Clock
    limits: JobLimits
    user_id: int
    place: Place
    conversation_id: int | None = None
    turn_id: int = 0
    origin: Origin | None = None
    author: Author = "person"

    async def add(self, new: NewJob) -> Job:
        """Store a job and return it; raises `ToolError` when it exceeds a limit or is never due."""
        now, least = self.clock.now(), self.limits.least_seconds
        if new.timing.shortest_seconds(now) < least:
            interval = timedelta(seconds=least)
            raise ToolError(f"That is too often: there have to be at least {interval} hours between two times.")
        if new.check is not None:
            check_condition(new.check.condition)
            if not timedelta() < new.check.expires_at - now <= MAX_CHECKED:
                raise ToolError(f"A check ends in the future, and within {MAX_CHECKED.days} days.")
        async with self.database.transaction() as session:
            await session.execute(statements.lock_jobs_of_user, {"user_id": self.user_id})
            await self._check_number(session)
            return await self.store(session, new)

    async def store(self, session: Session, new: NewJob) -> Job:
        """Store a job in this transaction, beside the limits: what it says has been asked for before.

        Raises `ToolError` when its text is too long or it is never due.
        """
        content, due = clean(new.text).strip(), new.timing.next_after(self.clock.now())
        if not 0 < len(content) <= MAX_TEXT_CHARS:
            raise ToolError(f"A job's text has 1 to {MAX_TEXT_CHARS:,} characters.")
        if due is None:
            raise ToolError("That time has passed.")
        origin = self.origin or await self.find_origin(session)
        parameters = {
            "user_id": self.user_id,
            "conversation_id": self.conversation_id,
            "adapter": origin.adapter,
            "platform_user_id": origin.platform_user_id,
            "module": new.module,
            "action": new.action,
            "content": content,
            "author": self.author,
            "requires": new.requires.label,
            "next_due_at": due,
            **asdict(new.timing),
            **(NO_CHECK if new.check is None else new.check.to_parameters()),
        }
        cursor = await session.execute(statements.add_job, parameters)
        return Job(
            cursor.scalar_one(),
            content,
            timing=new.timing,
            action=new.action,
            status="active",
            next_due_at=due,
            check_tool=new.check.tool if new.check else None,
            expires_at=new.check.expires_at if new.check else None,
            author=self.author,
        )

    async def list(self, limit: int = 100) -> Sequence[Job]:
        """Return the open jobs, those that are due next first, paused ones last."""
        async with self.database.transaction() as session:
            return await self._find(session, OPEN, limit=limit)

    async def cancel(self, job_id: int) -> Job:
        """End a job, which may be taken back until its row is removed; raises `NotFound`."""
        async with self.database.transaction() as session:
            job = await self._get(session, job_id)
            await session.execute(statements.cancel_job, {"id": job_id})
        return job

    async def pause(self, job_id: int) -> Job:
        """Let a job rest until it is resumed; raises `NotFound`."""
        async with self.database.transaction() as session:
            job = await self._get(session, job_id)
            await session.execute(statements.pause_job, {"id": job_id})
        return job

    async def resume(self, job_id: int) -> Job:
        """Let a paused or cancelled job go on with its next due time.

        Raises `NotFound`, and `ToolError` when there is no such time or there are too many jobs.
        """
        async with self.database.transaction() as session:
            await session.execute(statements.lock_jobs_of_user, {"user_id": self.user_id})
            job = await self._get(session, job_id, (*OPEN, "cancelled"))
            if job.status == "cancelled":
                await self._check_number(session)
            due = job.timing.next_after(self.clock.now())
            if due is None:
                raise ToolError(f"The time of job {job_id} has passed; cancel it and make a new one.")
            await session.execute(statements.resume_job, {"id": job_id, "next_due_at": due})
            return replace(job, status="active", next_due_at=due, error=None)

    async def _check_number(self, session: Session) -> None:
        number = (await session.execute(statements.count_jobs, {"user_id": self.user_id})).scalar_one()
        if number >= self.limits.most:
            raise ToolError(f"There are {self.limits.most} jobs already, which is the limit; cancel one first.")

    async def _get(self, session: Session, job_id: int, statuses: Sequence[Status] = OPEN) -> Job:
        jobs: Sequence[Job] = ()
        if 0 < job_id <= MAX_ID:
            await session.execute(statements.lock_job, {"id": job_id, "user_id": self.user_id})
            jobs = await self._find(session, statuses, job_id=job_id, limit=1)
        if not jobs:
            raise NotFound(what="job")
        return jobs[0]

    async def _find(
        self, session: Session, statuses: Sequence[Status], *, limit: int, job_id: int | None = None
    ) -> Sequence[Job]:
        place = self.place
        parameters = {
            "user_id": self.user_id,
            "id": job_id,
            "statuses": list(statuses),
            "is_direct": place.is_direct,
            "platform": place.platform,
            "server": place.channel if place.server is None else place.server,
            "limit": limit,
        }
        return [to_job(row) for row in (await session.execute(statements.find_jobs, parameters)).all()]

    async def find_origin(self, session: Session) -> Origin:
        """Return how the person wrote in this turn, or here last; raises `ToolError` if no person did."""
        parameters = {"user_id": self.user_id, "conversation_id": self.conversation_id, "turn_id": self.turn_id}
        row = (await session.execute(statements.find_origin, parameters)).one_or_none()
        if row is None or row.adapter in AGENT_ADAPTERS:
            raise ToolError("Jobs can be made only in a conversation with a person.")
        return Origin(row.adapter, row.platform_user_id)


def to_timing(row: Any) -> Timing:
    """Return the timing of a row; raises `ToolError` for one that can't be read."""
    if row.kind == "cron":
        return by_cron(row.cron, row.time_zone)
    if row.kind == "every":
        return at_interval(row.starts_at, row.every, row.unit, time_zone=row.time_zone)
    return once(row.starts_at, row.time_zone)


def to_job(row: Any) -> Job:
    """Return the job of a row."""
    return Job(
        row.id,
        row.content,
        timing=to_timing(row),
        action=row.action,
        status=row.status,
        next_due_at=row.next_due_at if row.status == "active" else None,
        check_tool=row.check_tool,
        expires_at=row.expires_at,
        error=row.error,
        author=row.author,
    )


def describe(job: Job, time_zone: str) -> str:
    """Return the job in one line for its person, with times in their zone."""
    zone = resolve_zone(time_zone)
    parts = [job.timing.describe()]
    if job.next_due_at is not None:
        parts.append(f"next {job.next_due_at.astimezone(zone):%a %d %b %Y %H:%M}")
    if job.status == "paused":
        parts.append(f"paused ({job.error})" if job.error else "paused")
    if job.check_tool is not None:
        parts.append(f"checks {job.check_tool}")
    if job.action == "resume_conversation":
        parts.append("I go on then")
    return f"{job.id}: {cut(job.text, 150)} ({', '.join(part for part in parts if part)})"
