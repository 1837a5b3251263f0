"""Signing in at an organisation's provider, and linking an account there with the person who is signed in.

The provider sends the browser back by a navigation of its own, with which no cookie of the session comes. So its
answer becomes a one-time link, which asks where somebody else is signed in. The browser that begins holds the other
half of the answer in a signed cookie, and then the link: either opens nothing when it is sent to somebody else.
"""

from html import escape
from secrets import token_urlsafe

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from adapters.web.guard import app_of
from adapters.web.login.forms import FORM_HEADERS, count_attempt
from adapters.web.login.links import LEAVE, open_link
from adapters.web.login.provider import CALLBACK, Attempt, NotSignedIn, Provider
from adapters.web.login.sessions import cookie_of, find_session, is_secure, require_same_origin
from adapters.web.notes import note
from adapters.web.texts import say
from agent.app import App
from agent.people.links import LINK_LIFE, one_time_key, page_address
from shared.db.statements import load_statements
from shared.errors import ParleyError, Refusal
from shared.messages import Sender

statements = load_statements(__file__)

COOKIE = "parley_oidc"
ENTRANCE = "/login/oidc/enter"
# Of one address in ten minutes.
MOST_ATTEMPTS = 30
OTHER_PERSON = say("login.other_person")


async def post_start(request: Request) -> Response:
    """Send the browser to the provider: to sign in, or for a person who is signed in, to link the account."""
    app = require_provider(request)
    require_same_origin(request)
    try:
        await count_attempt(request, "oidc", MOST_ATTEMPTS)
        session = await find_session(request)
        provider = await Provider.read(app, page_address(app) + CALLBACK)
    except ParleyError as error:
        return note(say("login.not_signed_in"), str(error), 503)
    attempt = Attempt(token_urlsafe(24), token_urlsafe(24), token_urlsafe(48))
    until = int((app.clock.now() + LINK_LIFE).timestamp())
    claim = [attempt.state, attempt.nonce, attempt.verifier, until, None if session is None else session.id]
    response = note(say("login.to_organisation"), say("login.one_moment"), 200, refresh=provider.to_address(attempt))
    _set_cookie(app, response, str(_signer(app).dumps(claim)))
    return response


async def get_callback(request: Request) -> Response:
    """Take the provider's answer, once and in the browser that asked."""
    app = require_provider(request)
    try:
        return await _take_answer(app, request)
    except ParleyError as error:
        # Whom the provider knows by another account would only come here again: first they sign out there.
        leave = LEAVE.format(sign_out=escape(say("login.sign_out_there", name=app.settings.oidc_name)))
        more = f'<p><a href="/">{escape(say("login.sign_in_otherwise"))}</a></p>{leave}'
        status = 403 if isinstance(error, Refusal) else 503
        response = note(say("login.not_signed_in"), str(error), status, more=more, headers=FORM_HEADERS)
    _set_cookie(app, response, "")
    return response


async def get_entrance(request: Request) -> Response:
    """Open the link that the provider's answer has become, by a navigation of our own page."""
    app, session = require_provider(request), await find_session(request)
    key = request.cookies.get(cookie_of(app, COOKIE), "")
    is_alone = request.headers.get("sec-fetch-site") == "same-origin"
    response = await open_link(request, session, key, is_alone=is_alone)
    _set_cookie(app, response, "")
    return response


async def post_leave(request: Request) -> Response:
    """Lead a browser that is signed out here to where the provider signs it out, too."""
    app = require_provider(request)
    require_same_origin(request)
    try:
        address = (await Provider.read(app, page_address(app) + CALLBACK)).to_exit(page_address(app))
    except ParleyError as error:
        return note(say("login.signed_out_here"), str(error), 503)
    if address is None:
        return note(say("login.signed_out_here"), say("login.no_way_out"), 200)
    return note(say("login.to_organisation"), say("login.one_moment"), 200, refresh=address)


async def _take_answer(app: App, request: Request) -> Response:
    try:
        state, nonce, verifier, until, session_id = _signer(app).loads(request.cookies.get(cookie_of(app, COOKIE), ""))
    except BadSignature:
        raise NotSignedIn from None
    query = dict(request.query_params)
    # Also an answer that is refused is taken: its code is worth nothing then.
    if until <= app.clock.now().timestamp() or query.get("state") != state:
        raise NotSignedIn
    async with app.database.statement() as session:
        parameters = {"nonce": f"oidc {state}", "until": until}
        if (await session.execute(statements.use_link, parameters)).one_or_none() is None:
            raise NotSignedIn
    provider = await Provider.read(app, page_address(app) + CALLBACK)
    account = await provider.find_account(query, Attempt(state, nonce, verifier))
    if session_id is not None:
        response, key = await _link(app, session_id, account), ""
    else:
        response = note(say("login.welcome"), say("login.one_moment"), 200, refresh=ENTRANCE)
        key = one_time_key(app, account, "oidc")
    _set_cookie(app, response, key)
    return response


async def _link(app: App, session_id: int, account: Sender) -> Response:
    parameters = {"platform": account.platform, "account": account.platform_user_id}
    async with app.database.transaction() as session:
        user_id = (await session.execute(statements.find_session_user, {"id": session_id})).scalar_one_or_none()
        if user_id is None:
            raise NotSignedIn
        owner = (await session.execute(statements.link_account, parameters | {"user_id": user_id})).scalar_one()
    if owner != user_id:
        raise Refusal(OTHER_PERSON)
    return note(say("login.linked"), say("login.linked_note"), 200, refresh="/me/accounts")


def require_provider(request: Request) -> App:
    """Return the app; raises a 404 when no provider is configured."""
    app = app_of(request)
    if app.settings.oidc_issuer is None:
        raise HTTPException(404)
    return app


def _set_cookie(app: App, response: Response, value: str) -> None:
    # Not strict: the provider's page leads back here.
    response.set_cookie(
        cookie_of(app, COOKIE),
        value,
        max_age=int(LINK_LIFE.total_seconds()) if value else 0,
        secure=is_secure(app),
        httponly=True,
        samesite="lax",
    )


def _signer(app: App) -> URLSafeSerializer:
    return URLSafeSerializer(app.secrets.signing_keys, salt="parley-web-oidc")
