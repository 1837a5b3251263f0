"""Which token a workspace has, and the Web API client with it."""

import asyncio
import logging
from typing import Protocol

import aiohttp
from pydantic import SecretStr
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.settings import SlackSettings
from adapters.slack.transport.api import Json, MethodLimits, Token, Web
from shared.clock import Clock
from shared.errors import Unavailable, Undeliverable

API_BASE = "https://slack.com/api/"
TIMEOUT_SECONDS = 30

# What the library has to say about single requests is said by us, by what it means.
quiet = logging.getLogger("parley.slack")
quiet.setLevel(logging.CRITICAL)


class NotInstalled(Undeliverable):
    """Parley is not installed in that workspace any more."""


class Tokens(Protocol):
    """Where the tokens of workspaces are kept."""

    async def find(self, team_id: str | None) -> Token | None:
        """Return a workspace's token, None when the app is not installed there; it is asked for each event."""
        ...


class Clients:
    """The Web API clients of all workspaces, on one set of connections."""

    def __init__(self, settings: SlackSettings, clock: Clock) -> None:
        self._base = settings.api_base or API_BASE
        self._clock = clock
        self._tokens: Tokens | None = None
        self._session: aiohttp.ClientSession | None = None
        self._webs: dict[str, Web] = {}

    def use(self, tokens: Tokens) -> None:
        """Take the tokens from here."""
        self._tokens = tokens

    async def find_token(self, team_id: str | None) -> Token | None:
        """Return a workspace's token."""
        return None if self._tokens is None else await self._tokens.find(team_id)

    async def find(self, team_id: str | None) -> Web | None:
        """Return a workspace's client, None when the app is not installed there."""
        token = await self.find_token(team_id)
        return None if token is None else self.of(token)

    async def get(self, team_id: str | None) -> Web:
        """Return a workspace's client; raises `NotInstalled`."""
        web = await self.find(team_id)
        if web is None:
            raise NotInstalled
        return web

    def of(self, token: Token) -> Web:
        """Return the client with a token; there is one for each, which knows how long Slack asked to wait."""
        text = token.secret.get_secret_value()
        kept = self._webs.get(text)
        if kept is None or kept.token != token:
            kept = self._webs[text] = Web(self.library_client(text), token, MethodLimits(self._clock))
        return kept

    def forget(self, token: Token) -> None:
        """Drop the client of a token that is revoked."""
        self._webs.pop(token.secret.get_secret_value(), None)

    def library_client(self, token: str | None = None) -> AsyncWebClient:
        """Return the library's own client on our connections, for what has no workspace yet."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        # No handlers that try again: a message that was made when the connection broke would be made twice.
        return AsyncWebClient(token, self._base, session=self._session, logger=quiet, retry_handlers=[])

    async def aclose(self) -> None:
        """Close the connections."""
        self._webs.clear()
        if self._session is not None:
            await self._session.close()
            self._session = None


class SettingsToken:
    """The one token of the settings; who it is, Slack is asked once."""

    def __init__(self, settings: SlackSettings, clients: Clients) -> None:
        self._secret, self._clients = settings.bot_token, clients
        self._token: Token | None = None
        self._asking = asyncio.Lock()

    async def find(self, team_id: str | None) -> Token | None:
        """Return the token; raises `Unavailable` while Slack can't say whose it is."""
        if (known := self._token) is not None:
            return known
        async with self._asking:
            if self._token is None and self._secret is not None:
                self._token = await self._introduce(self._secret)
            return self._token

    async def _introduce(self, secret: SecretStr) -> Token:
        unknown = Token(secret, "", "")
        me: Json = await self._clients.of(unknown).call("auth.test")
        self._clients.forget(unknown)
        if not me.get("team_id") or not me.get("user_id"):
            raise Unavailable("Slack did not say whose token SLACK_BOT_TOKEN is.")
        return Token(secret, me["team_id"], me["user_id"], me.get("bot_id"), me.get("team"), is_home=True)
