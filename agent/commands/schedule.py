"""The command `/schedule`, with which users list, make, pause and cancel their jobs."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from agent.commands.base import Command, Request
from agent.commands.signature import Id, Text
from agent.people.participants import resolve_conversation
from agent.people.personas import resolve_persona
from shared.dates.zones import resolve_zone
from shared.errors import NotFound, Refusal, ToolError
from shared.messages import Permission
from shared.schedules.jobs import JobLimits, JobsOfUser, NewJob, Origin, describe
from shared.schedules.phrases import read_timing

MOST_LISTED = 20
USAGE = (
    "Write /schedule list, /schedule add WHEN: TEXT (tomorrow at 9: water the plants; every Monday at 10: stand-up),"
    " or /schedule cancel, pause or resume with the ID of a job from the list."
)


schedule = Command(
    "schedule", "List your reminders and scheduled tasks, add one, or cancel, pause and resume one.", hint=USAGE
)


def jobs_of(request: Request) -> JobsOfUser:
    """Return the jobs of the requesting user that are visible in this place."""
    app = request.app
    limits = JobLimits.of(app.settings)
    return JobsOfUser(app.database, app.clock, limits, user_id=request.user.id, place=request.place)


@schedule.subcommand("list", is_default=True)
async def list_jobs(request: Request) -> str:
    """List your reminders and scheduled tasks."""
    jobs = await jobs_of(request).list(MOST_LISTED + 1)
    if not jobs:
        return f"Nothing is scheduled here. {USAGE}"
    lines = [describe(job, request.user.time_zone) for job in jobs[:MOST_LISTED]]
    return "\n".join(["Scheduled:", *lines, *(["… and more."] if len(jobs) > MOST_LISTED else [])])


@schedule.subcommand("add", requires=Permission.USER)
async def add_job(request: Request, reminder: Text) -> str:
    """Add a reminder: when, a colon, and what I shall say then."""
    # The colon of a time of day has no blank behind it.
    when, _, content = (part.strip() for part in reminder.partition(": "))
    if not when or not content:
        raise Refusal(USAGE)
    zone = resolve_zone(request.user.time_zone).key
    app, place = request.app, request.place
    with _refusals():
        timing = read_timing(when, app.clock.now(), zone, week_start=request.user.week_start)
        async with app.database.transaction() as session:
            persona = await resolve_persona(session, place, request.user.permission, settings=app.settings)
            conversation = await resolve_conversation(session, request.user.id, persona.id, place=place)
        origin = Origin(request.adapter, request.sender.platform_user_id)
        jobs = replace(jobs_of(request), conversation_id=conversation.id, origin=origin)
        return f"Scheduled: {describe(await jobs.add(NewJob(content, timing)), zone)}"


@schedule.subcommand("cancel")
async def cancel_job(request: Request, id_: Id) -> str:
    """Cancel a job of the list."""
    with _refusals():
        return f"Cancelled: {(await jobs_of(request).cancel(id_)).text} (`/schedule resume {id_}` takes that back)"


@schedule.subcommand("pause")
async def pause_job(request: Request, id_: Id) -> str:
    """Pause a job of the list."""
    with _refusals():
        return f"Paused: {(await jobs_of(request).pause(id_)).text}"


@schedule.subcommand("resume", requires=Permission.USER)
async def resume_job(request: Request, id_: Id) -> str:
    """Resume a job that is paused or was cancelled."""
    with _refusals():
        return f"Scheduled: {describe(await jobs_of(request).resume(id_), request.user.time_zone)}"


@contextmanager
def _refusals() -> Iterator[None]:
    """Tell the person what the model would be told."""
    try:
        yield
    except NotFound:
        raise Refusal("You have no such job here; /schedule list shows them.") from None
    except ToolError as error:
        raise Refusal(str(error)) from None
