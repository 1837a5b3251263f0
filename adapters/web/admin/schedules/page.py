"""`/admin/schedules`: what will be said or asked later, for whom and when; what it says is the person's own."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.visit import ROWS, Visit
from adapters.web.texts import say
from shared.db.statements import load_statements

statements = load_statements(__file__)

STATUSES = ("active", "paused", "finished", "cancelled")


async def show_jobs(visit: Visit) -> Response:
    """Show the jobs of people, the newest first."""
    status = visit.query("status") or None
    if status is not None and status not in STATUSES:
        raise HTTPException(404)
    rows = await visit.rows(statements.list_jobs, status=status, before=visit.cursor(), rows=ROWS + 1)
    return visit.render(
        "schedules/schedules.html",
        title=say("admin.schedules"),
        counts=await visit.row(statements.count_jobs),
        rows=[(row, to_timing(row)) for row in rows[:ROWS]],
        last=rows[ROWS - 1].id if len(rows) > ROWS else None,
        statuses=STATUSES,
    )


def to_timing(row: Any) -> str:
    """Return in words when a job is due."""
    if row.kind == "cron":
        return f"{row.cron} ({row.time_zone})"
    if row.kind == "once":
        return say("admin.once")
    if row.every == 1:
        return say("admin.every_unit", unit=row.unit)
    return say("admin.every_few_units", every=f"{row.every:,}", unit=row.unit)


ROUTES = (Route("/admin/schedules", show_jobs),)
