"""One request of an admin: what a page asks the database, shows, and changes in the admin's name."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

from msgspec import Struct
from sqlalchemy import TextClause
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from adapters.web.admin.access import Admin
from adapters.web.admin.rendering import TEMPLATES
from adapters.web.login.forms import FORM_HEADERS
from adapters.web.texts import say
from agent.app import App
from agent.commands.forms.changes import list_own_entries, read_latest_entry
from agent.commands.forms.changes import undo as take_back
from agent.commands.forms.entries import Form
from shared.dates.zones import resolve_zone
from shared.db.database import Database
from shared.db.errors import refusals
from shared.db.pooling.room import POOL_SIZE
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.text import MAX_ID, to_id, to_sentence

statements = load_statements(__file__)

# Rows that a page of a table has.
ROWS = 50
# At once, of the connections of a process: what is looked for in long tables leaves the others to messages.
READS = POOL_SIZE // 2
UNDO = "undo"
OTHER_LOGIN = say("admin.login_is_newer")
CONTENT_POLICY = FORM_HEADERS["Content-Security-Policy"].replace("trusted-types dompurify", "trusted-types htmx")
HEADERS = FORM_HEADERS | {"Content-Security-Policy": CONTENT_POLICY}

_reading: WeakKeyDictionary[Database, asyncio.Semaphore] = WeakKeyDictionary()


class Outcome(Struct, frozen=True):
    """What an act did or why it did not; `values` are what was entered, `entries` what it wrote into the audit."""

    act: str
    sentence: str
    is_done: bool
    values: Mapping[str, str]
    entries: tuple[int, ...] = ()


Act = Callable[[AsyncSession, Form], Awaitable[str]]


@dataclass(slots=True)
class Visit:
    """One request of an admin; `path_params` hold what the address names."""

    request: Request
    app: App
    admin: Admin
    form: Form
    outcome: Outcome | None = field(default=None, init=False)

    @property
    def zone(self) -> ZoneInfo:
        """Return the admin's time zone."""
        return resolve_zone(self.admin.user.time_zone)

    @property
    def open_modules(self) -> frozenset[str]:
        """Return the modules of whose tools none shows what is one person's own, such as what is remembered of them."""
        tools = [*self.app.tools.modules.tools.values(), *self.app.tools.mcp.tools.values()]
        private = {tool.module for tool in tools if tool.reads_private}
        return frozenset({tool.module for tool in tools} - private)

    @property
    def path_params(self) -> Mapping[str, Any]:
        """Return the parts of the address."""
        params: Mapping[str, Any] = self.request.path_params
        return params

    def query(self, name: str) -> str:
        """Return a parameter of the address, empty if it is left out."""
        return self.request.query_params.get(name, "").strip()[:200]

    def day(self, name: str) -> date | None:
        """Return the day that a parameter of the address names, None for what is no day of our times."""
        try:
            day = date.fromisoformat(self.query(name))
        except ValueError:
            return None
        return day if 2000 <= day.year <= 2200 else None

    def cursor(self, name: str = "before") -> int:
        """Return the id before which a page of a table begins, the largest on the first page; raises a 404."""
        text = self.query(name)
        if not text:
            return MAX_ID
        if (row_id := to_id(text)) is None:
            raise HTTPException(404)
        return row_id

    async def rows(self, statement: TextClause, **parameters: Any) -> list[Any]:
        """Return the rows of one statement."""
        reading = _reading.setdefault(self.app.database, asyncio.Semaphore(READS))
        async with reading, self.app.database.transaction() as session:
            return list((await session.execute(statement, parameters)).all())

    async def row(self, statement: TextClause, **parameters: Any) -> Any:
        """Return the only row of a statement; raises a 404 if there is none."""
        rows = await self.rows(statement, **parameters)
        if not rows:
            raise HTTPException(404)
        return rows[0]

    async def act(self, acts: Mapping[str, Act]) -> None:
        """Do what a form asks for, as this admin; `outcome` then says what was done, or why it was refused.

        The acts are functions of the page by the name that its form has, each returning a sentence. Undoing is an act
        of every page. Nothing happens on a GET. Raises a 404 for an act that the page does not have.
        """
        if self.request.method != "POST":
            return
        name = self.form.text("act")
        act = {UNDO: undo, **acts}.get(name)
        if act is None:
            raise HTTPException(404)
        try:
            if self.form.text("token") != self.admin.token:
                raise Refusal(OTHER_LOGIN)
            with refusals():
                async with self.app.database.transaction() as session:
                    latest = await self._begin(session)
                    sentence = await act(session, self.form)
                    entries = await list_own_entries(session, self.admin.account, latest)
        except Refusal as refusal:
            self.outcome = Outcome(name, to_sentence(str(refusal)), is_done=False, values=self.form.values)
            return
        self.outcome = Outcome(name, to_sentence(sentence), is_done=True, values={}, entries=entries)

    async def _begin(self, session: AsyncSession) -> int:
        # From here on the database holds the transaction to what this person may, and names them in the audit.
        parameters = {
            "user_id": self.admin.user.id,
            "account": self.admin.account,
            "is_fresh": self.admin.has_fresh_login,
        }
        await session.execute(statements.act_as, parameters)
        return await read_latest_entry(session)

    def render(self, template: str, *, title: str, **values: Any) -> Response:
        """Return a page made of a template; a refused form answers with a 422."""
        page = TEMPLATES.get_template(template).render(
            visit=self, title=title, outcome=self.outcome, is_missing=False, **values
        )
        is_refused = self.outcome is not None and not self.outcome.is_done
        return HTMLResponse(page, 422 if is_refused else 200, headers=HEADERS)


def calling(statement: TextClause, read: Callable[[Form], Mapping[str, Any]]) -> Act:
    """Return the act that runs a statement with what `read` finds in the form, and says what it returns."""

    async def act(session: AsyncSession, form: Form) -> str:
        return str((await session.execute(statement, read(form))).scalar_one())

    return act


async def undo(session: AsyncSession, form: Form) -> str:
    """Take back a change of the audit."""
    return await take_back(session, form.number("entry"))
