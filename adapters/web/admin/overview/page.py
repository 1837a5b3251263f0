"""`/admin`: how everything is, read again every few seconds; what takes longer is looked at on demand."""

import asyncio
from collections import defaultdict
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct
from sqlalchemy import TextClause
from starlette.responses import Response
from starlette.routing import Route

from adapters.web.admin.overview.checks import Check, check_everything
from adapters.web.admin.visit import Visit
from adapters.web.health import NO_WORKER, count_workers, find_obstacle
from adapters.web.texts import say
from shared.db.database import Database
from shared.db.statements import load_statements
from shared.errors import Refusal, Unavailable

statements = load_statements(__file__)

CHECK = "check"
# A sum is not read again for so many times as long as it took: all who look cost the database a twentieth of its time.
REST = 20


class Sum:
    """Rows that take the longer the more there is; they are read for all who look together."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        self._until = 0.0
        self._rows: list[Any] = []

    async def rows(self, visit: Visit, statement: TextClause, **parameters: Any) -> list[Any]:
        """Return the rows of the statement, from a moment ago if they take long."""
        monotonic = visit.app.clock.monotonic
        async with self._reading:
            begin = monotonic()
            if begin >= self._until:
                self._rows = await visit.rows(statement, **parameters)
                end = monotonic()
                self._until = end + REST * (end - begin)
            return self._rows


_sums: WeakKeyDictionary[Database, defaultdict[str, Sum]] = WeakKeyDictionary()


class Health(Struct, frozen=True):
    """Whether a message is accepted and answered; `obstacle` says why not."""

    obstacle: str | None
    workers: int


async def show_overview(visit: Visit) -> Response:
    """Show what waits, runs, fails and is spent; with the form, also what `parley doctor` finds."""
    checks: list[Check] | None = None
    problem = None
    if visit.form.text("act") == CHECK:
        try:
            checks = await check_everything(visit.app.settings)
        except Refusal as refusal:
            problem = str(refusal)
    else:
        await visit.act({})
    zone = visit.zone.key
    sums = _sums.setdefault(visit.app.database, defaultdict(Sum))
    return visit.render(
        "overview/overview.html",
        title=say("admin.overview"),
        health=await find_health(visit),
        state=await visit.row(statements.read_state),
        spend=(await sums[zone].rows(visit, statements.read_spend, zone=zone))[0],
        limits=await sums["limits"].rows(visit, statements.list_limits),
        turns=await visit.rows(statements.list_running),
        failures=await visit.rows(statements.list_failures),
        backlog=await visit.rows(statements.list_backlog),
        stuck=await visit.rows(statements.list_stuck) if not is_refresh(visit) else [],
        checks=checks,
        problem=problem,
    )


async def find_health(visit: Visit) -> Health:
    """Return what `/readyz` says."""
    try:
        obstacle = await find_obstacle(visit.app)
        workers = await count_workers(visit.app, visit.request.app.state.workers)
    except Unavailable as error:
        return Health(str(error), 0)
    return Health(obstacle or (None if workers else NO_WORKER), workers)


def is_refresh(visit: Visit) -> bool:
    """Tell whether only what is shown live is asked for: the rest reads whole tables."""
    return visit.request.headers.get("hx-request") == "true" and visit.request.method == "GET"


ROUTES = (Route("/admin", show_overview, methods=["GET", "POST"]),)
