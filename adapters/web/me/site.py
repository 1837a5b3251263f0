"""The entrance of the pages about oneself: it admits a person with a session, and finds the page and the act."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from adapters.web.admin.rendering import build_templates
from adapters.web.guard import app_of
from adapters.web.login.forms import FORM_HEADERS, read_form, to_form_token
from adapters.web.login.links import show_entrance
from adapters.web.login.sessions import WebSession, find_session, require_same_origin
from adapters.web.me.acts import ACTS, Result
from adapters.web.me.sections import SECTIONS, Section
from adapters.web.notes import note
from adapters.web.page.chat import PLATFORM, place_of
from adapters.web.texts import say
from agent.app import App
from agent.commands.base import Request as Asking
from agent.people.participants import find_user
from shared.dates.zones import resolve_zone
from shared.db.errors import refusals
from shared.errors import ParleyError, Refusal
from shared.messages import Sender

OTHER_LOGIN = say("form.other_login")


@dataclass(slots=True)
class Visit:
    """One request of a person: who asks, as a command knows them, and the session; `token` stands in each form.

    `fields` are what was entered.
    """

    request: Request
    app: App
    session: WebSession
    asking: Asking
    token: str
    fields: Mapping[str, str] = field(default_factory=dict, init=False)
    result: Result | None = field(default=None, init=False)

    @property
    def zone(self) -> ZoneInfo:
        """Return the person's time zone."""
        return resolve_zone(self.asking.user.time_zone)


async def answer(request: Request) -> Response:
    """Answer a person with the page of this address, after doing what its form asks for."""
    app, session = app_of(request), await find_session(request)
    if session is None:
        return show_entrance(app)
    section = next((section for section in SECTIONS if section.path == request.url.path.rstrip("/")), None)
    if section is None:
        raise HTTPException(404)
    sender = Sender(PLATFORM, session.account)
    async with app.database.transaction() as transaction:
        user = await find_user(transaction, sender)
    if user is None:
        raise HTTPException(404)
    asking = Asking(app, sender, place_of(session.account, "me"), user=user, adapter=PLATFORM)
    visit = Visit(request, app, session, asking=asking, token=to_form_token(app, session))
    if request.method == "POST":
        require_same_origin(request)
        await act(visit)
        if visit.result is not None and visit.result.is_gone:
            return note(visit.result.title, visit.result.sentence, 200)
    return await render(visit, section)


async def act(visit: Visit) -> None:
    """Do what a form asks for; `visit.result` then says what was done, or why it was refused."""
    visit.fields = fields = await read_form(visit.request)
    perform = ACTS.get(fields.get("act", ""))
    if perform is None:
        raise HTTPException(404)
    try:
        if not compare_digest(fields.get("token", "").encode(), visit.token.encode()):
            raise Refusal(OTHER_LOGIN)
        with refusals():
            visit.result = await perform(visit.asking, visit.session, fields)
    except ParleyError as error:
        visit.result = Result(str(error), is_refused=True)


async def render(visit: Visit, section: Section) -> Response:
    """Return the page of a section."""
    values: dict[str, Any] = await section.read(visit.asking, visit.session, visit.request.query_params)
    template = TEMPLATES.get_template(section.template)
    status = 422 if visit.result is not None and visit.result.is_refused else 200
    page = template.render(visit=visit, sections=SECTIONS, section=section, **values)
    return HTMLResponse(page, status, headers=FORM_HEADERS)


TEMPLATES = build_templates(Path(__file__).parent)
