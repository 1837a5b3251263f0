"""`/admin/audit`: what admins have changed, by whom, from what to what, and the way back."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.rendering import to_zone
from adapters.web.admin.visit import ROWS, Visit
from adapters.web.page.chats import to_pattern
from adapters.web.texts import say
from agent.commands.forms.changes import VERBS
from shared.db.statements import load_statements
from shared.text import cut, to_id

statements = load_statements(__file__)

MOST_CHARS = 400
# How columns of moments end; the log holds them as text.
MOMENTS = ("_at", "_until")


class Change(Struct, frozen=True):
    """One column of an entry, before and after."""

    column: str
    before: str
    after: str


async def show_audit(visit: Visit) -> Response:
    """Show the entries, the newest first."""
    await visit.act({})
    words, who = visit.query("q"), visit.query("who")
    parameters = {
        "before": visit.cursor(),
        "table": visit.query("table") or None,
        "row": to_id(visit.query("row")),
        "who": to_pattern(who) if who else None,
        "pattern": to_pattern(words) if words else None,
        "since": to_day(visit),
        "limit": ROWS + 1,
    }
    entries = await visit.rows(statements.list_entries, **parameters)
    return visit.render(
        "audit/audit.html",
        title=say("admin.audit"),
        entries=[(entry, list_changes(entry.before, entry.after, visit.zone)) for entry in entries[:ROWS]],
        last=entries[ROWS - 1].id if len(entries) > ROWS else None,
        tables=[row.table_name for row in await visit.rows(statements.list_tables)],
        verbs=VERBS,
    )


def to_day(visit: Visit) -> datetime | None:
    """Return the beginning of the day that the filter names, where the admin lives."""
    try:
        return datetime.strptime(visit.query("since"), "%Y-%m-%d").replace(tzinfo=visit.zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def list_changes(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, zone: ZoneInfo) -> list[Change]:
    """Return what is different, column by column; of a row that was added or removed, what it held."""
    old, new = before or {}, after or {}
    # The number of the row stands beside its name.
    columns = [column for column in {**old, **new} if column != "id"]
    changes = [
        Change(name, to_text(name, old.get(name), zone=zone), to_text(name, new.get(name), zone=zone))
        for name in columns
    ]
    return [change for change in changes if change.before or change.after]


def to_text(column: str, value: Any, *, zone: ZoneInfo) -> str:
    """Return a value of the log as people read it, cut; a moment in this zone."""
    if value is None:
        return ""
    if isinstance(value, str) and column.endswith(MOMENTS):
        with suppress(ValueError):
            return f"{to_zone(datetime.fromisoformat(value), zone):%Y-%m-%d %H:%M}"
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MOST_CHARS)


ROUTES = (Route("/admin/audit", show_audit, methods=["GET", "POST"]),)
