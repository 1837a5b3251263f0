"""The command `/schedule`, with which users list, make, pause and cancel their jobs."""

from dataclasses import replace

from agent.commands.base import Request, command
from agent.people.participants import resolve_conversation
from agent.people.personas import resolve_persona
from shared.dates.zones import find_zone
from shared.errors import NotFound, Refusal, ToolError
from shared.permissions import Permission
from shared.schedules.jobs import JobLimits, JobsOfUser, NewJob, Origin, describe
from shared.schedules.phrases import read_timing

MOST_LISTED = 20
USAGE = (
    "Write /schedule list, /schedule add WHEN: TEXT (tomorrow at 9: water the plants; every Monday at 10: stand-up),"
    " or /schedule cancel, pause or resume with the ID of a job from the list."
)


@command("/schedule list|add REMINDER|cancel ID|pause ID|resume ID")
async def schedule(request: Request) -> str:
    """List your reminders and scheduled tasks, add one, or cancel, pause and resume one."""
    verb, _, rest = (request.argument or "list").partition(" ")
    try:
        if verb == "list" and not rest:
            return await _list(request)
        if verb == "add":
            return await _add(request, rest)
        return await _change(request, verb, rest.strip().lstrip("#"))
    except NotFound:
        raise Refusal("You have no such job here; /schedule list shows them.") from None
    except ToolError as error:
        raise Refusal(str(error)) from None


def jobs_of(request: Request) -> JobsOfUser:
    """Return the jobs of the requesting user that are visible in this place."""
    app = request.app
    limits = JobLimits.of(app.settings)
    return JobsOfUser(app.database, app.clock, limits, user_id=request.user.id, place=request.place)


async def _list(request: Request) -> str:
    jobs = await jobs_of(request).list(MOST_LISTED + 1)
    if not jobs:
        return f"Nothing is scheduled here. {USAGE}"
    lines = [describe(job, request.user.time_zone) for job in jobs[:MOST_LISTED]]
    return "\n".join(["Scheduled:", *lines, *(["… and more."] if len(jobs) > MOST_LISTED else [])])


async def _add(request: Request, text: str) -> str:
    request.require(Permission.USER)
    when, content = _split(text)
    zone = request.user.time_zone if find_zone(request.user.time_zone) else "UTC"
    timing = read_timing(when, request.app.clock.now(), zone, week_start=request.user.week_start)
    app, place = request.app, request.place
    async with app.database.transaction() as session:
        persona = await resolve_persona(session, place, request.user.permission, settings=app.settings)
        conversation = await resolve_conversation(session, request.user.id, persona.id, place=place)
    origin = Origin(request.adapter, request.sender.platform_user_id)
    job = await replace(jobs_of(request), conversation_id=conversation.id, origin=origin).add(NewJob(content, timing))
    return f"Scheduled: {describe(job, zone)}"


def _split(text: str) -> tuple[str, str]:
    # The colon of a time of day has no blank behind it.
    when, colon, content = text.partition(": ")
    if not colon or not when.strip() or not content.strip():
        raise Refusal(USAGE)
    return when.strip(), content.strip()


async def _change(request: Request, verb: str, job_id: str) -> str:
    if verb not in {"cancel", "pause", "resume"} or not (job_id.isascii() and job_id.isdecimal()):
        raise Refusal(USAGE)
    jobs, number = jobs_of(request), int(job_id[:30])
    if verb == "cancel":
        return f"Cancelled: {(await jobs.cancel(number)).text}"
    if verb == "pause":
        return f"Paused: {(await jobs.pause(number)).text}"
    request.require(Permission.USER)
    return f"Scheduled: {describe(await jobs.resume(number), request.user.time_zone)}"
