"""When a holiday is, and which days people mean."""

import asyncio
from typing import Any

from modules.calendar.date_ranges import Span
from modules.calendar.dates import resolve, today_in
from modules.calendar.holidays import Found, find_holiday, get_holiday
from shared.errors import ToolError
from shared.permissions import Permission
from shared.tools import ToolContext, tool


@tool(requires=Permission.GUEST, read_only=True, repeatable=True)
async def resolve_holiday(context: ToolContext, holiday_name: str, year: int | None = None) -> dict[str, Any]:
    """Get a holiday's dates."""
    today = today_in(context.clock.now(), context.user.time_zone)
    # The first call reads tables of dates from disk.
    return _told(await asyncio.to_thread(get_holiday, holiday_name, year, today))


@tool(requires=Permission.GUEST, read_only=True, repeatable=True)
async def resolve_date_hint(context: ToolContext, hint: str) -> dict[str, Any]:
    """Get the dates of e.g. next weekend."""
    now, zone = context.clock.now(), context.user.time_zone
    try:
        span = resolve(hint, now, zone, context.user.week_start)
    except ToolError:
        holiday = await asyncio.to_thread(find_holiday, hint, None, today_in(now, zone))
        if holiday is None:
            raise
        return {**_told(holiday), "text": f"{holiday.name}: {holiday.span.sentence()}"}
    return {**_days(span), "text": span.sentence(), **({"note": span.note} if span.note else {})}


def _told(found: Found) -> dict[str, Any]:
    return {"name": found.name, **_days(found.span), "note": found.span.note}


def _days(span: Span) -> dict[str, Any]:
    return {"start": span.start.isoformat(), "end": span.end.isoformat(), "days": span.days}
