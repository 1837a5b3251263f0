"""Sessions of people on the chat page: a random token in a cookie, and its hash in the database."""

from datetime import timedelta
from functools import wraps
from hashlib import sha256
from re import compile as pattern
from secrets import token_hex
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from adapters.web.faults import Fault
from adapters.web.guard import Endpoint, app_of
from adapters.web.texts import say
from agent.app import App
from agent.people.links import Way
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import Sender
from shared.text import clean, cut

statements = load_statements(__file__)

COOKIE = "parley_session"
# Other texts are not looked up.
SHAPE = pattern(r"[0-9a-f]{64}")
SESSION_LIFE = timedelta(days=30)
# What can't be taken back is done by who has signed in just now.
FRESH_LIFE = timedelta(minutes=15)
NOT_FRESH = say("login.not_fresh")
NO_SESSION = say("login.no_session")

# In this order, because most say that they are another one, too.
BROWSERS = {
    "Edg": "Edge",
    "OPR": "Opera",
    "SamsungBrowser": "Samsung Internet",
    "Firefox": "Firefox",
    "Chrome": "Chrome",
    "Safari": "Safari",
}
SYSTEMS = {
    "iPhone": "an iPhone",
    "iPad": "an iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


class WebSession(Struct, frozen=True):
    """A browser that is signed in: the person, the person's account on the platform `web`, and how long it has been."""

    id: int
    user_id: int
    account: str
    age: timedelta

    @property
    def has_fresh_login(self) -> bool:
        """Return whether the person may do what can't be taken back without signing in once more."""
        return self.age < FRESH_LIFE

    def require_fresh_login(self) -> None:
        """Raise `Refusal` unless the person has signed in within the last minutes."""
        if not self.has_fresh_login:
            raise Refusal(NOT_FRESH)


def with_session(endpoint: Endpoint) -> Endpoint:
    """Require a session cookie, and requests from our own page."""

    @wraps(endpoint)
    async def checked(request: Request) -> Response:
        request.state.session = await find_session(request)
        if request.state.session is None:
            raise Fault(401, "no_session", NO_SESSION)
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
    raise Fault(403, "wrong_origin", say("login.other_origin"))


async def find_session(request: Request) -> WebSession | None:
    """Return the session of this browser's cookie, None without one that goes on."""
    app = app_of(request)
    token = request.cookies.get(cookie_of(app), "")
    if SHAPE.fullmatch(token) is None:
        return None
    async with app.database.statement() as session:
        parameters = {"token_hash": to_hash(token), "days": SESSION_LIFE.days}
        row = (await session.execute(statements.use_session, parameters)).one_or_none()
    return None if row is None else WebSession(row.id, row.user_id, row.account, age=row.age)


def session_in(request: Request) -> WebSession:
    """Return the session that `with_session` has found."""
    session: WebSession = request.state.session
    return session


def session_of(request: Request) -> str:
    """Return the web user's id in the session that `with_session` has found."""
    return session_in(request).account


async def begin_session(request: Request, account: Sender, way: Way) -> str:
    """Sign in this browser as the person with this account, and return the cookie's token; its earlier session ends."""
    app, token = app_of(request), token_hex(32)
    earlier = await find_session(request)
    parameters = {
        "platform": account.platform,
        "account": account.platform_user_id,
        "username": account.username,
        "token_hash": to_hash(token),
        "way": way,
        "user_agent": to_summary(request.headers.get("user-agent", "")),
        "days": SESSION_LIFE.days,
    }
    async with app.database.transaction() as session:
        await session.execute(statements.begin_session, parameters)
        if earlier is not None:
            await session.execute(statements.end_sessions, {"user_id": earlier.user_id, "id": earlier.id, "but": None})
    return token


async def end_sessions(app: App, user_id: int, session_id: int | None = None, *, but: int | None = None) -> int:
    """End one session of a person, or without an id all of them `but` one; return how many ended."""
    async with app.database.transaction() as session:
        parameters = {"user_id": user_id, "id": session_id, "but": but}
        return int((await session.execute(statements.end_sessions, parameters)).scalar_one())


def set_cookie(app: App, response: Response, token: str) -> None:
    """Give the browser a session's cookie for 30 days; with an empty token, take it away."""
    response.set_cookie(
        cookie_of(app),
        token,
        max_age=int(SESSION_LIFE.total_seconds()) if token else 0,
        secure=is_secure(app),
        httponly=True,
        samesite="strict",
    )


def cookie_of(app: App, name: str = COOKIE) -> str:
    """Return the name of a cookie; with this prefix no other host below our domain can put one in its place."""
    return f"__Host-{name}" if is_secure(app) else name


def is_secure(app: App) -> bool:
    """Return whether people reach the page by TLS."""
    return (app.settings.public_url or "").startswith("https:")


def to_summary(user_agent: str) -> str:
    """Return which browser on which system this is, in words; of a program, what it says of itself."""
    browser = next((name for mark, name in BROWSERS.items() if mark in user_agent), None)
    system = next((name for mark, name in SYSTEMS.items() if mark in user_agent), None)
    return f"{browser} on {system}" if browser and system else cut(clean(user_agent), 60)


def to_hash(token: str) -> bytes:
    """Return what the database keeps: the token itself would be in the log of one that logs its statements."""
    return sha256(token.encode()).digest()
