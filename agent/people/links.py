"""The one-time links that open the chat page as a person."""

from datetime import timedelta
from secrets import token_hex, token_urlsafe
from typing import Literal, Protocol

from itsdangerous import BadSignature, URLSafeSerializer
from msgspec import Struct

from shared.clock import Clock
from shared.messages import Sender
from shared.settings import Secrets, Settings

LINK_LIFE = timedelta(minutes=10)
PAGE = "web"

Way = Literal["link", "command", "oidc", "guest"]


class Signer(Protocol):
    """What signs links: the app, or less."""

    @property
    def settings(self) -> Settings:
        """Return the settings."""
        ...

    @property
    def secrets(self) -> Secrets:
        """Return the secrets."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        ...


class LinkSigner(Struct, frozen=True):
    """Signs links in a process that has no app."""

    settings: Settings
    secrets: Secrets
    clock: Clock


class LinkClaim(Struct, frozen=True):
    """What a link says: whom it signs in, how the person got it, its own number, and until when it is valid."""

    account: Sender
    way: Way
    nonce: str
    until: int


def one_time_link(signer: Signer, account: str | None = None, platform: str = PAGE, *, way: Way = "link") -> str:
    """Return a URL that opens the chat page once, within ten minutes, as the person with this account.

    Who has none on the page gets one then; without `account` it opens the page as a new person.
    """
    return f"{page_address(signer)}/?key={one_time_key(signer, Sender(platform, account or token_hex(8)), way)}"


def one_time_key(signer: Signer, account: Sender, way: Way) -> str:
    """Return what a link carries that opens the page as the person with this account."""
    until = int((signer.clock.now() + LINK_LIFE).timestamp())
    claim = [account.platform, account.platform_user_id, account.username, way, token_urlsafe(12), until]
    return str(_serializer(signer).dumps(claim))


def page_address(signer: Signer) -> str:
    """Return the address of the chat page, without a slash at its end."""
    host = signer.settings.host
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
        # A browser can't open the address that stands for all addresses.
        host = "127.0.0.1"
    elif ":" in host:
        host = f"[{host}]"
    base = signer.settings.public_url or f"http://{host}:{signer.settings.port}"
    return base.rstrip("/")


def read_link(signer: Signer, key: str) -> LinkClaim | None:
    """Return what a link says; None for one that is made up or too old. Whether it was used, `use_link` tells."""
    try:
        platform, account, username, way, nonce, until = _serializer(signer).loads(key)
    except BadSignature:
        return None
    if until <= signer.clock.now().timestamp():
        return None
    return LinkClaim(Sender(platform, account, username), way, nonce, until=until)


def _serializer(signer: Signer) -> URLSafeSerializer:
    return URLSafeSerializer(signer.secrets.signing_keys, salt="parley-web-link")
