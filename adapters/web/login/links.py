"""The one-time link: it signs a browser in, after a question unless the person has opened it alone in this browser.

A page of somebody else that leads a browser to a link would sign it in as whom it likes, and read what is written
then; so would a chat that somebody shows on a page of ours. So nothing but a navigation that no page has started, such
as a click in a terminal or an app, signs in at once, and that only a browser in which nobody else is: otherwise the
page says as whom one would go on, and a form of ours asks. What remains is a person who opens a stranger's link by
hand: the page and its menu say as whom one is here.
"""

from html import escape
from secrets import token_hex

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from adapters.web.guard import app_of
from adapters.web.login.forms import FORM_HEADERS, count_attempt, read_form
from adapters.web.login.sessions import (
    WebSession,
    begin_session,
    end_sessions,
    find_session,
    require_same_origin,
    set_cookie,
)
from adapters.web.notes import NEW_LINK, note
from adapters.web.texts import say
from agent.app import App
from agent.people.links import PAGE, LinkClaim, read_link
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import Sender

statements = load_statements(__file__)

QUESTION = """<form method="post" action="/login"><input type="hidden" name="key" value="{key}">
<input type="hidden" name="instead_of" value="{instead_of}">
<button type="submit" class="primary">{go_on}</button></form>
<p><a href="/">{stay}</a></p>"""
PROVIDER = """<form method="post" action="/login/oidc">
<button type="submit" class="primary">{sign_in}</button></form>"""

LEAVE = """<form method="post" action="/login/oidc/leave"><button type="submit">{sign_out}</button></form>"""
GUEST = """<form method="post" action="/login/guest"><button type="submit">{go_on}</button></form>"""
# New guests of one address in ten minutes: each of them has a budget.
MOST_GUESTS = 5


async def open_link(request: Request, session: WebSession | None, key: str, *, is_alone: bool) -> Response:
    """Answer a browser that opens a link: sign it in, or ask. `is_alone`: no page that a stranger fills led here."""
    app = app_of(request)
    claim = read_link(app, key)
    if claim is None:
        return _refuse(app, session)
    async with app.database.statement() as database:
        if (await database.execute(statements.is_link_used, {"nonce": claim.nonce})).scalar_one():
            return _refuse(app, session)
    person_id, name = await _find_person(app, claim.account)
    if is_alone and (session is None or session.user_id == person_id):
        return await _sign_in(request, claim) or _refuse(app, session)
    return await _ask(app, session, key, name=name)


async def post_login(request: Request) -> Response:
    """Sign in by a one-time link when the person has said yes, unless somebody else is signed in since."""
    require_same_origin(request)
    fields = await read_form(request)
    app, key, session = app_of(request), fields.get("key", ""), await find_session(request)
    claim = read_link(app, key)
    if claim is None:
        return _refuse(app, session)
    person_id, name = await _find_person(app, claim.account)
    is_known = session is None or str(session.id) == fields.get("instead_of") or session.user_id == person_id
    if not is_known:
        return await _ask(app, session, key, name=name)
    return await _sign_in(request, claim) or _refuse(app, session)


async def post_guest(request: Request) -> Response:
    """Sign in whoever asks as a new guest, where the settings allow it."""
    app = app_of(request)
    if not app.settings.web_guests:
        raise HTTPException(404)
    require_same_origin(request)
    if (session := await find_session(request)) is not None:
        return _refuse(app, session)
    try:
        await count_attempt(request, "guest", MOST_GUESTS)
    except Refusal as refusal:
        return note(say("login.not_signed_in"), str(refusal), 429)
    return enter(request, await begin_session(request, Sender(PAGE, token_hex(16)), "guest"))


async def post_logout(request: Request) -> Response:
    """Sign out this browser, and have it forget what the page has kept in it."""
    require_same_origin(request)
    app, session = app_of(request), await find_session(request)
    if session is not None:
        await end_sessions(app, session.user_id, session.id)
    sign_out = escape(say("login.sign_out_of", name=app.settings.oidc_name))
    more = LEAVE.format(sign_out=sign_out) if app.settings.oidc_issuer else ""
    response = note(say("login.signed_out"), say("login.open_a_new_link"), 200, more=more, headers=FORM_HEADERS)
    response.headers["Clear-Site-Data"] = '"cache", "storage"'
    set_cookie(app, response, "")
    return response


async def _sign_in(request: Request, claim: LinkClaim) -> Response | None:
    app = app_of(request)
    # In the database, because a link is opened at any of the machines.
    async with app.database.statement() as session:
        parameters = {"nonce": claim.nonce, "until": claim.until}
        row = (await session.execute(statements.use_link, parameters)).one_or_none()
    if row is None:
        return None
    return enter(request, await begin_session(request, claim.account, claim.way))


def enter(request: Request, token: str) -> Response:
    """Return the response that signs a browser in, and leads it to the page."""
    # A page that reloads, and not a redirect: after a click in another site's page, the browser would follow the
    # redirect without the new cookie.
    response = note(say("login.welcome"), say("login.one_moment"), 200, refresh="/")
    set_cookie(app_of(request), response, token)
    return response


async def _find_person(app: App, account: Sender) -> tuple[int | None, str]:
    async with app.database.statement() as session:
        parameters = {"platform": account.platform, "account": account.platform_user_id}
        row = (await session.execute(statements.find_person, parameters)).one_or_none()
    return (None, account.username or say("login.new_person")) if row is None else (row.user_id, row.name)


async def _ask(app: App, session: WebSession | None, key: str, *, name: str) -> Response:
    if session is None:
        text, stay = say("login.opens_as", name=name), say("login.leave_it")
    else:
        _, own_name = await _find_person(app, Sender(PAGE, session.account))
        text, stay = say("login.opens_as_another", own=own_name, name=name), say("login.stay", name=own_name)
    form = QUESTION.format(
        key=escape(key),
        instead_of="" if session is None else session.id,
        go_on=escape(say("login.go_on_as", name=name)),
        stay=escape(stay),
    )
    return note(say("login.go_on_as_question", name=name), text, 200, more=form, headers=FORM_HEADERS)


def _refuse(app: App, session: WebSession | None) -> Response:
    if session is not None:
        return note(say("login.welcome_back"), say("login.one_moment"), 200, refresh="/")
    return show_entrance(app, say("login.link_is_old"))


def show_entrance(app: App, title: str | None = None) -> Response:
    """Say to whoever is not signed in how to do that."""
    settings = app.settings
    sign_in = escape(say("login.sign_in_with", name=settings.oidc_name))
    more = PROVIDER.format(sign_in=sign_in) if settings.oidc_issuer else ""
    more += GUEST.format(go_on=escape(say("login.go_on_as_a_guest"))) if settings.web_guests else ""
    title = title or (say("login.sign_in") if more else say("login.opened_by_a_link"))
    return note(title, NEW_LINK, 401, more=more, headers=FORM_HEADERS)
