"""Sessions of people on the chat page: a one-time link, exchanged for a cookie."""

from datetime import UTC, datetime, timedelta
from functools import wraps
from secrets import token_hex, token_urlsafe
from typing import Any
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.requests import Request
from starlette.responses import Response

from adapters.web.faults import Fault
from adapters.web.guard import Endpoint, app_of
from agent.app import App
from shared.db.statements import load_statements

statements = load_statements(__file__)

COOKIE = "parley_session"
LINK_LIFE = timedelta(minutes=10)
SESSION_LIFE = timedelta(days=30)


def with_session(endpoint: Endpoint) -> Endpoint:
    """Require a session cookie, and requests from our own page."""

    @wraps(endpoint)
    async def checked(request: Request) -> Response:
        session_of(request)
        require_same_origin(request)
        return await endpoint(request)

    return checked


def require_same_origin(request: Request) -> None:
    """Refuse requests that another site's page sends with this browser's cookie."""
    site = request.headers.get("sec-fetch-site")
    if site == "same-origin":
        return
    origin = request.headers.get("origin", "")
    ours = {request.headers.get("host", "")}
    if public := app_of(request).settings.public_url:
        ours.add(urlsplit(public).netloc)
    if site is None and origin and urlsplit(origin).netloc in ours:
        return
    # Without TLS a browser tells the site to no machine but its own, and the origin only with what changes something.
    # Another site can't read what it gets here, and its requests come without the cookie.
    if site is None and not origin and request.method == "GET":
        return
    raise Fault(403, "wrong_origin", "This may only be asked from Parley's own page.")


def one_time_link(app: App, web_user_id: str | None = None) -> str:
    """Return a URL that opens the chat page once, within ten minutes.

    `web_user_id` is the person's id on the platform `web`; without it the link creates a new person.
    """
    claim = {"who": web_user_id or token_hex(8), "nonce": token_urlsafe(12), "until": _deadline(app, LINK_LIFE)}
    host = app.settings.host
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        # A browser can't open the address that stands for all addresses.
        host = "127.0.0.1"
    elif ":" in host:
        host = f"[{host}]"
    base = app.settings.public_url or f"http://{host}:{app.settings.port}"
    return f"{base.rstrip('/')}/?key={_signer(app, 'link').dumps(claim)}"


async def redeem(app: App, key: str) -> str | None:
    """Return the web user's id in a link's token, None if it is invalid, expired or used."""
    claim = _read(app, "link", key)
    if claim is None:
        return None
    # In the database, because a link is opened at any of the machines.
    parameters = {"nonce": claim["nonce"], "until": claim["until"]}
    async with app.database.statement() as session:
        row = (await session.execute(statements.use_link, parameters)).one_or_none()
    return None if row is None else str(claim["who"])


def find_session(request: Request) -> str | None:
    """Return the web user's id in this browser's cookie, None without a valid one."""
    claim = _read(app_of(request), "session", request.cookies.get(COOKIE, ""))
    return None if claim is None else str(claim["who"])


def find_login_time(request: Request) -> datetime | None:
    """Return when the link was opened that this browser's session came from, None without a valid session."""
    claim = _read(app_of(request), "session", request.cookies.get(COOKIE, ""))
    return None if claim is None else datetime.fromtimestamp(claim.get("since", 0), UTC)


def session_of(request: Request) -> str:
    """Return the web user's id in this browser's cookie; raises a 401 without a valid one."""
    who = find_session(request)
    if who is None:
        raise Fault(401, "no_session", "Your session has ended; open the page with a new link.")
    return who


def give_session(app: App, response: Response, web_user_id: str, *, since: datetime | None = None) -> None:
    """Set the session cookie, valid for 30 days; `since` is when it began, by default now."""
    began = int((since or app.clock.now()).timestamp())
    claim = {"who": web_user_id, "since": began, "until": _deadline(app, SESSION_LIFE)}
    response.set_cookie(
        COOKIE,
        _signer(app, "session").dumps(claim),
        max_age=int(SESSION_LIFE.total_seconds()),
        secure=(app.settings.public_url or "").startswith("https:"),
        httponly=True,
        samesite="strict",
    )


def _deadline(app: App, life: timedelta) -> int:
    return int((app.clock.now() + life).timestamp())


def _signer(app: App, purpose: str) -> URLSafeSerializer:
    # The serializer signs with the last key; our setting lists the newest first.
    return URLSafeSerializer(list(reversed(app.secrets.secret_keys)), salt=f"parley-web-{purpose}")


def _read(app: App, purpose: str, token: str) -> dict[str, Any] | None:
    try:
        claim: dict[str, Any] = _signer(app, purpose).loads(token)
    except BadSignature:
        return None
    return claim if claim["until"] > app.clock.now().timestamp() else None
