"""Tools for scheduled jobs: reminders, and tasks that are taken up again at a given time."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from shared.dates.times import read_moment
from shared.dates.zones import get_zone
from shared.errors import ToolError
from shared.permissions import Permission
from shared.schedules.jobs import Action, Job
from shared.schedules.phrases import read_repetition
from shared.schedules.timing import Timing, by_cron, once
from shared.tools import ToolContext, tool

Words = Annotated[str, Field(max_length=120)]
Text = Annotated[str, Field(min_length=1, max_length=4000)]


@tool(requires=Permission.USER, acts=True)
async def add_job(
    context: ToolContext,
    text: Text,
    at: Words | None = None,
    every: Words | None = None,
    cron: Words | None = None,
    time_zone: Annotated[str, Field(max_length=64)] | None = None,
    action: Action = "notify",
) -> dict[str, Any]:
    """Schedule a reminder or a task in this conversation.

    Give one of: at ("tomorrow at 9", "in 20 minutes", "2027-01-17 09:00"), every ("2 hours", "weekday at 8:30"), cron
    ("0 9 * * 1-5"). notify says the text to the person; resume_conversation gives it to you, to do what it says.
    """
    zone = time_zone or context.user.time_zone
    timing = _read_timing(context, zone, at=at, every=every, cron=cron)
    return _to_result(await context.schedule(text, timing, action=action), zone)


@tool(requires=Permission.GUEST, read_only=True, reads_private=True)
async def list_jobs(context: ToolContext) -> dict[str, Any]:
    """List the person's scheduled jobs, the next one first."""
    found = await context.jobs.list()
    return {"jobs": [_to_result(each, context.user.time_zone) for each in found]}


@tool(requires=Permission.USER, acts=True)
async def cancel_job(context: ToolContext, job_id: int) -> dict[str, Any]:
    """End a scheduled job for good."""
    await context.jobs.cancel(job_id)
    return {"job_id": job_id, "status": "cancelled"}


@tool(requires=Permission.USER, acts=True)
async def pause_job(context: ToolContext, job_id: int) -> dict[str, Any]:
    """Let a scheduled job rest until resume_job."""
    await context.jobs.pause(job_id)
    return {"job_id": job_id, "status": "paused"}


@tool(requires=Permission.USER, acts=True)
async def resume_job(context: ToolContext, job_id: int) -> dict[str, Any]:
    """Let a paused job go on."""
    return _to_result(await context.jobs.resume(job_id), context.user.time_zone)


def _read_timing(context: ToolContext, zone: str, at: str | None, every: str | None, cron: str | None) -> Timing:
    if sum(each is not None for each in (at, every, cron)) != 1:
        raise ToolError("Give one of at, every and cron.")
    get_zone(zone)
    now = context.clock.now()
    if cron is not None:
        return by_cron(cron, zone)
    if every is not None:
        return read_repetition(every, now, zone)
    return once(read_moment(at or "", now, zone, week_start=context.user.week_start), zone)


def _to_result(job: Job, zone: str) -> dict[str, Any]:
    shown = {
        "job_id": job.id,
        "text": job.text,
        "status": job.status,
        "action": job.action,
        "next": _show(job.next_due_at, zone),
        "repeats": job.timing.describe(),
        "checks": job.check_tool,
        "expires": _show(job.expires_at, zone),
        "error": job.error,
    }
    return {name: value for name, value in shown.items() if value}


def _show(moment: datetime | None, zone: str) -> str | None:
    return None if moment is None else f"{moment.astimezone(get_zone(zone)):%A, %d %B %Y, %H:%M} ({zone})"
