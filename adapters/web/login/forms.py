"""Small forms of pages that need no script: how they are read, and what their pages allow."""

from contextlib import suppress
from ipaddress import IPv6Address, ip_network
from urllib.parse import parse_qsl

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.requests import Request

from adapters.web.api.bodies import capped, require_type
from adapters.web.faults import Fault
from adapters.web.guard import app_of
from adapters.web.login.sessions import WebSession
from adapters.web.notes import NO_STORE
from adapters.web.texts import say
from agent.app import App
from shared.db.statements import load_statements
from shared.errors import Refusal

statements = load_statements(__file__)

ATTEMPT_SECONDS = 600
TOO_MANY = say("login.too_many_attempts")
# A memory's text, of which a form makes up to twelve bytes for each character, is the longest.
MAX_FORM_BYTES, MAX_FIELDS = 64 * 1024, 20
# Whoever has one address of IPv6 has all that begin with these bits.
NETWORK_BITS = 64
# A form of ours is sent to us alone, and browsers without TLS say where it comes from by nothing but its origin.
FORM_HEADERS = NO_STORE | {
    "Content-Security-Policy": NO_STORE["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'"),
    "Referrer-Policy": "same-origin",
}


def to_form_token(app: App, session: WebSession) -> str:
    """Return what stands in the forms of a session, and no other site knows."""
    return str(_signer(app).dumps([session.account, session.id]))


def find_form_account(app: App, token: str) -> str | None:
    """Return the account in whose session a form was shown, this one or an earlier one; None for a made-up token."""
    try:
        return str(_signer(app).loads(token)[0])
    except BadSignature:
        return None


def _signer(app: App) -> URLSafeSerializer:
    return URLSafeSerializer(app.secrets.signing_keys, salt="parley-web-form")


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a small form."""
    require_type(request, "application/x-www-form-urlencoded")
    body = b"".join([chunk async for chunk in capped(request, MAX_FORM_BYTES)])
    try:
        return dict(parse_qsl(body.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise Fault(400, "invalid_form", say("form.too_many_fields", most=MAX_FIELDS)) from None


async def count_attempt(request: Request, door: str, most: int) -> None:
    """Count that an address comes to a way of signing in; raises `Refusal` above so many in ten minutes."""
    address = request.client.host if request.client else ""
    # What is no address of IPv6 stays as it is; so does one of IPv4 that a socket for both writes as one.
    with suppress(ValueError):
        if IPv6Address(address).ipv4_mapped is None:
            address = str(ip_network((address.partition("%")[0], NETWORK_BITS), strict=False))
    parameters = {"door": door, "visitor": address, "most": most, "seconds": ATTEMPT_SECONDS}
    async with app_of(request).database.transaction() as session:
        if not (await session.execute(statements.count_attempt, parameters)).scalar_one():
            raise Refusal(TOO_MANY)
