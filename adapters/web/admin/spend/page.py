"""`/admin/spend`: tokens and money by day and by what they were spent on, as a page and as a table for spreadsheets."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.visit import HEADERS, Visit
from adapters.web.texts import say
from shared.db.statements import load_statements
from shared.text import to_text_cell

statements = load_statements(__file__)

# What is counted by, and what the table calls it.
KINDS = {
    "person": say("admin.person"),
    "model": say("admin.model"),
    "server": say("admin.server"),
    "channel": say("admin.channel"),
    "persona": say("admin.persona"),
    "purpose": say("admin.purpose"),
}
DAYS = (7, 30, 90, 365)
SHOWN_ROWS = 25
COLUMNS = ("calls", "tokens", "cached", "dollars", "calls_of_unknown_price")
# The filter of the turns that a row belongs to.
FILTERS = {"person": "person", "model": "model", "persona": "persona"}


class Span(Struct, frozen=True):
    """Whole days of UTC, from the first to the last one."""

    first: date
    last: date

    @property
    def bounds(self) -> dict[str, datetime]:
        """Return the moments between which a call belongs to it."""
        first, last = (datetime.combine(day, time(), UTC) for day in (self.first, self.last))
        return {"since": first, "until": last + timedelta(days=1)}

    @property
    def length(self) -> int:
        """Return the number of its days."""
        return (self.last - self.first).days + 1


class Sum(Struct, frozen=True):
    """What some calls took together; `dollars` is None where no price is known."""

    calls: int
    tokens: int
    dollars: Decimal | None
    unpriced: int


async def show_spending(visit: Visit) -> Response:
    """Show what was spent in a span of days, with the limits beside it."""
    span, kind = read_span(visit), read_kind(visit)
    days = await visit.rows(statements.list_spending, by="day", **span.bounds)
    rows = await visit.rows(statements.list_spending, by=kind, **span.bounds)
    return visit.render(
        "spend/spend.html",
        title=say("admin.spend"),
        span=span,
        kind=kind,
        kinds=KINDS,
        choices=[(count, Span(span_end(visit) - timedelta(days=count - 1), span_end(visit))) for count in DAYS],
        total=to_sum(rows),
        days=list(fill_days(span, days)),
        rows=rows[:SHOWN_ROWS],
        others=to_sum(rows[SHOWN_ROWS:]) if len(rows) > SHOWN_ROWS else None,
        other_count=len(rows) - SHOWN_ROWS,
        limits=await visit.rows(statements.list_limits),
        turns_of=to_turns,
    )


async def export_spending(visit: Visit) -> Response:
    """Return the whole table as a file for spreadsheets, in which no name is run as a formula."""
    span, kind = read_span(visit), visit.query("by")
    if kind != "day":
        kind = read_kind(visit)
    rows = await visit.rows(statements.list_spending, by=kind, **span.bounds)
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow([kind, "id", *COLUMNS])
    for row in rows:
        figures = ["" if (figure := getattr(row, column)) is None else str(figure) for column in COLUMNS]
        table.writerow([to_text_cell(row.name), to_text_cell(row.key or ""), *figures])
    name = f"parley-spend-by-{kind}-{span.first}-{span.last}.csv"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": "text/csv; charset=utf-8"}
    return Response(text.getvalue(), headers=HEADERS | headers)


def read_kind(visit: Visit) -> str:
    """Return what is counted by; raises a 404 for what is not."""
    kind = visit.query("by") or "person"
    if kind not in KINDS:
        raise HTTPException(404)
    return kind


def read_span(visit: Visit) -> Span:
    """Return the days that the address names, by default the last 30; wrong days, and too many, are put right."""
    last = visit.day("until") or span_end(visit)
    first = visit.day("since") or last - timedelta(days=29)
    first, last = sorted((first, last))
    return Span(max(first, last - timedelta(days=3 * 365)), last)


def span_end(visit: Visit) -> date:
    """Return today, in UTC."""
    return visit.app.clock.now().astimezone(UTC).date()


def to_sum(rows: Sequence[Any]) -> Sum:
    """Return what these rows are together."""
    prices = [row.dollars for row in rows if row.dollars is not None]
    return Sum(
        calls=sum(row.calls for row in rows),
        tokens=sum(row.tokens for row in rows),
        dollars=sum(prices, Decimal()) if prices else None,
        unpriced=sum(row.calls_of_unknown_price for row in rows),
    )


def fill_days(span: Span, rows: Sequence[Any]) -> Iterator[tuple[date, Sum]]:
    """Yield each day of the span with its sum, the newest first; a day without calls has spent nothing."""
    sums = {row.key: to_sum([row]) for row in rows}
    for offset in range(span.length):
        day = span.last - timedelta(days=offset)
        yield day, sums.get(day.isoformat(), Sum(0, 0, Decimal(), unpriced=0))


def to_turns(kind: str, key: str | None, span: Span) -> str | None:
    """Return the address of the turns that a row belongs to, None where turns have no such filter."""
    if key is None or kind not in FILTERS:
        return None
    return f"/admin/turns?{urlencode({FILTERS[kind]: key, 'since': span.first.isoformat()})}"


ROUTES = (Route("/admin/spend", show_spending), Route("/admin/spend/export", export_spending))
