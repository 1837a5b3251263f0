"""Tools for scheduled jobs: reminders, and tasks that are taken up again at a given time."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

from msgspec.structs import replace
from pydantic import Field

from shared.dates.zones import find_zone, get_zone
from shared.errors import ToolError, Unavailable
from shared.messages import Permission
from shared.schedules.conditions import MISSING, Comparison, Condition, Value, find_value
from shared.schedules.jobs import Action, Check, Job
from shared.schedules.timing import at_interval, by_cron, once
from shared.tasks import run_on_text
from shared.text import clean, cut
from shared.tools import ToolContext, tool

CHECK_SECONDS, SERVER_ERROR = 20.0, 500
MAX_CHECK_BYTES = 1024 * 1024
MAX_SHOWN_CHARS = 4000

Words = Annotated[str, Field(max_length=120)]
Path = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=4000)]


# `acts=False`: a job speaks to its person alone, and keeps who may have written its text.
@tool(requires=Permission.USER, acts=False, words=("Scheduling “{text}”", "Scheduled “{text}”"))
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

    Example: {"text": "Water the plants.", "at": "in 20 minutes"} -> "job_id": 1

    Example: {"text": "Stand-up in ten minutes.", "every": "weekday at 8:30"} -> "job_id": 2
    """
    # Imported here, as in modules/calendar.
    from shared.dates.times import read_moment
    from shared.schedules.phrases import read_repetition

    zone = time_zone or context.user.time_zone
    if sum(option is not None for option in (at, every, cron)) != 1:
        raise ToolError("Give one of at, every and cron.")
    get_zone(zone)
    now = context.clock.now()
    if cron is not None:
        timing = by_cron(cron, zone)
    elif every is not None:
        timing = read_repetition(every, now, zone)
    else:
        timing = once(read_moment(at or "", now, zone, week_start=context.user.week_start), zone)
    return _to_result(await context.schedule(text, timing, action=action), zone)


@tool(requires=Permission.USER, acts=True, words=("Setting up a watch[ of {url}]", "Set up a watch[ of {url}]"))
async def watch(
    context: ToolContext,
    text: Text,
    comparison: Comparison,
    value: Value = None,
    path: Path = "",
    url: Annotated[str, Field(max_length=2000)] | None = None,
    tool_name: Annotated[str, Field(max_length=64)] | None = None,
    arguments: dict[str, Any] | None = None,
    every: Words = "10 minutes",
    until: Words = "in 1 day",
    action: Action = "notify",
) -> dict[str, Any]:
    """Look again and again at a url, or at the result of a tool that only reads, until it compares so to the value.

    path leads into JSON ("items.0.price"). Then the job notifies or resumes as in add_job, with the result; if that
    has not happened until a time ("in 2 days"), the person is told.

    Example: {"text": "Open", "url": "https://town.example/bridge", "comparison": "contains", "value": "May"} -> job_id
    """
    # Imported here, as above.
    from shared.dates.times import read_moment, read_seconds

    now, zone = context.clock.now(), context.user.time_zone
    if (url is None) == (tool_name is None):
        raise ToolError("Give a url, or a tool_name with its arguments.")
    condition = Condition(path, comparison, value)
    name = f"{context.module}.{check_url.run.__name__}"
    if url is None:
        name, tool_arguments = (tool_name or "").replace("__", ".", 1), arguments or {}
    elif comparison in {"contains", "lacks"} and not path and value is not None:
        # It is looked for in the whole text, of which the result shows only the beginning.
        tool_arguments = {"url": url, "contains": str(value)}
        condition = Condition("contains", "equals", comparison == "contains")
    else:
        tool_arguments, condition = {"url": url, "path": path}, replace(condition, path="value")
    expires_at = read_moment(until, now, zone if find_zone(zone) else "UTC", week_start=context.user.week_start)
    seconds = read_seconds(every)
    if seconds is None:
        raise ToolError("every is a duration such as 10 minutes.")
    timing = at_interval(now + timedelta(seconds=1), seconds, "second", time_zone="UTC")
    check = Check(name, tool_arguments, condition=condition, expires_at=expires_at)
    return _to_result(await context.schedule(text, timing, action=action, check=check), zone)


@tool(
    requires=Permission.USER,
    read_only=True,
    repeatable=True,
    reads_untrusted=True,
    acts=True,
    words=("Checking {url}", "Checked {url}"),
)
async def check_url(context: ToolContext, url: str, path: Path = "", contains: Words | None = None) -> dict[str, Any]:
    """Read a JSON or text address: its status, the value at a path of the JSON, and whether its text contains words.

    Example: {"url": "https://town.example/bridge", "contains": "3 May"} -> "contains": true
    """
    response = await context.http.get(url, timeout_seconds=CHECK_SECONDS, max_bytes=MAX_CHECK_BYTES)
    if response.status >= SERVER_ERROR:
        raise Unavailable(f"The address answers with status {response.status}.")
    body = clean(response.text)
    reading = await run_on_text(partial(_read_value, path), body)
    result: dict[str, Any] = {"status": response.status}
    if reading is not MISSING:
        result["value"] = cut(reading, MAX_SHOWN_CHARS) if isinstance(reading, str) else reading
    return result if contains is None else result | {"contains": contains.casefold() in body.casefold()}


@tool(
    requires=Permission.GUEST,
    read_only=True,
    reads_private=True,
    words=("Listing your schedules", "Listed your schedules"),
)
async def list_jobs(context: ToolContext) -> dict[str, Any]:
    """List the person's scheduled jobs, the next one first.

    Example: {} -> "jobs": [
    """
    jobs = await context.jobs.list()
    result: dict[str, Any] = {"jobs": [_to_result(job, context.user.time_zone) for job in jobs]}
    return result | _mark(jobs)


@tool(requires=Permission.USER, acts=False, words=("Cancelling schedule {job_id}", "Cancelled schedule {job_id}"))
async def cancel_job(context: ToolContext, job_id: int) -> dict[str, Any]:
    """End a scheduled job; resume_job takes that back.

    Example: {"job_id": 1} -> "cancelled"
    """
    await context.jobs.cancel(job_id)
    return {"job_id": job_id, "status": "cancelled"}


@tool(requires=Permission.USER, acts=False, words=("Pausing schedule {job_id}", "Paused schedule {job_id}"))
async def pause_job(context: ToolContext, job_id: int) -> dict[str, Any]:
    """Let a scheduled job rest until resume_job.

    Example: {"job_id": 2} -> "paused"
    """
    await context.jobs.pause(job_id)
    return {"job_id": job_id, "status": "paused"}


@tool(requires=Permission.USER, acts=False, words=("Resuming schedule {job_id}", "Resumed schedule {job_id}"))
async def resume_job(context: ToolContext, job_id: int) -> dict[str, Any]:
    """Let a paused or cancelled job go on.

    Example: {"job_id": 2} -> "job_id": 2
    """
    job = await context.jobs.resume(job_id)
    return _to_result(job, context.user.time_zone) | _mark([job])


def _mark(jobs: Sequence[Job]) -> dict[str, Any]:
    """Say that a stranger may have written a job's text, or the error of its check."""
    return {"untrusted": True} if any(job.author == "stranger" or job.error for job in jobs) else {}


def _to_result(job: Job, zone: str) -> dict[str, Any]:
    fields = {
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
    return {name: value for name, value in fields.items() if value}


def _show(moment: datetime | None, zone: str) -> str | None:
    return None if moment is None else f"{moment.astimezone(get_zone(zone)):%A, %d %B %Y, %H:%M} ({zone})"


def _read_value(path: str, body: str) -> Any:
    try:
        return find_value(json.loads(body), path)
    except (ValueError, RecursionError):
        return MISSING if path else body
