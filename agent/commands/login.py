"""The command `/login`, and the one-time links that open the chat page."""

from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex, token_urlsafe
from typing import Literal

from itsdangerous import BadSignature, URLSafeSerializer

from agent.app import App
from agent.commands.base import Answered, Request, command
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import Sender

statements = load_statements(__file__)

LINK_LIFE = timedelta(minutes=10)
# So many links an account gets in so many seconds.
MOST_LINKS, LINK_SECONDS = 5, 600
PAGE, LOCAL_HOSTS = "web", ("localhost", "127.", "::1", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
# A program that speaks for people, and a person's token for the API, is no person in front of a browser.
PROGRAMS = frozenset({"http", "a2a", "mcp"})
TO_PROGRAM = "I give out links to my page only to people, in a chat of their own: write /login there."
HERE_ALREADY = "You are signed in here already; /me shows as whom."
TOO_MANY = "You have asked for too many links; please wait ten minutes."
REPLY = (
    "This link opens my page as you, once, within ten minutes. Keep it to yourself: whoever opens it is you.\n{link}"
)
ONLY_HERE = "(It works on the machine on which I run: nobody has set PUBLIC_URL.)"

Way = Literal["link", "command", "oidc", "guest"]


@dataclass(frozen=True, slots=True)
class LinkClaim:
    """What a link says: whom it signs in, how the person got it, its own number, and until when it is valid."""

    account: Sender
    way: Way
    nonce: str
    until: int


@command("login")
async def log_in(request: Request, *_: str) -> str | Answered:
    """Send you a link that opens my page as you, once, within ten minutes."""
    if request.adapter == PAGE:
        return HERE_ALREADY
    if request.adapter in PROGRAMS or request.adapter != request.place.platform:
        raise Refusal(TO_PROGRAM)
    app, sender = request.app, request.sender
    visitor = {"door": "command", "visitor": f"user {request.user.id}", "most": MOST_LINKS, "seconds": LINK_SECONDS}
    async with app.database.transaction() as session:
        is_within_limit = (await session.execute(statements.count_attempt, visitor)).scalar_one()
    if not is_within_limit:
        raise Refusal(TOO_MANY)
    reply = REPLY.format(link=one_time_link(app, sender.platform_user_id, sender.platform, way="command"))
    is_local = app.settings.public_url is None and app.settings.host.startswith(LOCAL_HOSTS)
    return Answered(f"{reply}\n{ONLY_HERE}" if is_local else reply, is_secret=True)


def one_time_link(app: App, account: str | None = None, platform: str = PAGE, *, way: Way = "link") -> str:
    """Return a URL that opens the chat page once, within ten minutes, as the person with this account.

    Who has none on the page gets one then; without `account` it opens the page as a new person.
    """
    return f"{page_address(app)}/?key={one_time_key(app, Sender(platform, account or token_hex(8)), way)}"


def one_time_key(app: App, account: Sender, way: Way) -> str:
    """Return what a link carries that opens the page as the person with this account."""
    until = int((app.clock.now() + LINK_LIFE).timestamp())
    claim = [account.platform, account.platform_user_id, account.username, way, token_urlsafe(12), until]
    return str(_signer(app).dumps(claim))


def page_address(app: App) -> str:
    """Return the address of the chat page, without a slash at its end."""
    host = app.settings.host
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        # A browser can't open the address that stands for all addresses.
        host = "127.0.0.1"
    elif ":" in host:
        host = f"[{host}]"
    base = app.settings.public_url or f"http://{host}:{app.settings.port}"
    return base.rstrip("/")


def read_link(app: App, key: str) -> LinkClaim | None:
    """Return what a link says; None for one that is made up or too old. Whether it was used, `use_link` tells."""
    try:
        platform, account, username, way, nonce, until = _signer(app).loads(key)
    except BadSignature:
        return None
    if until <= app.clock.now().timestamp():
        return None
    return LinkClaim(Sender(platform, account, username), way, nonce, until=until)


def _signer(app: App) -> URLSafeSerializer:
    return URLSafeSerializer(app.secrets.signing_keys, salt="parley-web-link")
