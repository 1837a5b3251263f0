"""The panel of a user's scheduled jobs."""

from agent.commands.base import Request
from agent.commands.panels.base import Entry, Listed, panel
from agent.commands.schedule import jobs_of
from shared.errors import NotFound
from shared.schedules.jobs import describe
from shared.text import to_id

MOST_LISTED = 20


async def cancel(request: Request, entry_id: str) -> str:
    """Cancel one of the person's jobs."""
    try:
        await jobs_of(request).cancel(to_id(entry_id) or 0)
    except NotFound:
        return "It was over before."
    return "I have cancelled it."


@panel("schedule", "What is scheduled for you", verb="Cancel", empty="Nothing is scheduled.", remove=cancel)
async def list_jobs(request: Request) -> Listed:
    """List the jobs, the next one first."""
    jobs = await jobs_of(request).list(MOST_LISTED + 1)
    more = "There is more: /schedule list shows it." if len(jobs) > MOST_LISTED else ""
    entries = [Entry(str(job.id), describe(job, request.user.time_zone)) for job in jobs[:MOST_LISTED]]
    return Listed(entries, more)
