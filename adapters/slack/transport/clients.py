"""The token of each workspace, and a Web API client with it."""

import asyncio
import logging
from typing import Protocol

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from adapters.slack.settings import SlackSettings
from adapters.slack.transport.api import Json, MethodLimits, Web
from adapters.slack.transport.token import Token
from shared.clock import Clock
from shared.db.database import Database
from shared.errors import Unavailable, Undeliverable

API_BASE = "https://slack.com/api/"
TIMEOUT_SECONDS = 30

# The library's log of single requests is replaced by our own log events.
quiet = logging.getLogger("parley.slack")
quiet.setLevel(logging.CRITICAL)


class NotInstalled(Undeliverable):
    """Parley is not installed in that workspace any more."""


class Tokens(Protocol):
    """The source of the workspaces' tokens."""

    async def find(self, team_id: str | None) -> Token | None:
        """Return a workspace's token, None if the app is not installed there; this is called for each event."""
        ...


class Clients:
    """The Web API clients of all workspaces, with one connection pool."""

    def __init__(self, settings: SlackSettings, clock: Clock, database: Database | None = None) -> None:
        self._base = settings.api_base or API_BASE
        self._clock, self._database = clock, database
        self._tokens: Tokens | None = None
        self._session: aiohttp.ClientSession | None = None
        self._webs: dict[str, Web] = {}

    def use(self, tokens: Tokens) -> None:
        """Set the source of tokens."""
        self._tokens = tokens

    async def find_token(self, team_id: str | None) -> Token | None:
        """Return a workspace's token, None if the app is not installed there."""
        return None if self._tokens is None else await self._tokens.find(team_id)

    async def find(self, team_id: str | None) -> Web | None:
        """Return a workspace's client, None if the app is not installed there."""
        token = await self.find_token(team_id)
        return None if token is None else self.of(token)

    async def get(self, team_id: str | None) -> Web:
        """Return a workspace's client; raises `NotInstalled`."""
        web = await self.find(team_id)
        if web is None:
            raise NotInstalled
        return web

    def of(self, token: Token) -> Web:
        """Return the client of a token; there is one per token, which keeps its rate limits."""
        text = token.secret.get_secret_value()
        web = self._webs.get(text)
        if web is None or web.token != token:
            limits = MethodLimits(self._clock, self._database, token.team_id)
            web = self._webs[text] = Web(self.library_client(text), token, limits)
        return web

    def forget(self, token: Token) -> None:
        """Drop the client of a revoked token."""
        self._webs.pop(token.secret.get_secret_value(), None)

    def library_client(self, token: str | None = None) -> AsyncWebClient:
        """Return the library's client with our connection pool, for calls before a workspace is known."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        # No retries by the library: after a broken connection a message could be posted twice.
        return AsyncWebClient(token, self._base, session=self._session, logger=quiet, retry_handlers=[])

    async def aclose(self) -> None:
        """Close the connections."""
        self._webs.clear()
        if self._session is not None:
            await self._session.close()
            self._session = None


class SettingsToken:
    """The token in the settings, for its own workspace alone; which one that is, is looked up once."""

    def __init__(self, settings: SlackSettings, clients: Clients) -> None:
        self._secret, self._clients = settings.bot_token, clients
        self._token: Token | None = None
        self._lock = asyncio.Lock()

    async def find(self, team_id: str | None) -> Token | None:
        """Return the token, None for another workspace; raises `Unavailable` while its own can't be looked up."""
        async with self._lock:
            if self._token is None and self._secret is not None:
                unknown = Token(self._secret, "", "")
                me: Json = await self._clients.of(unknown).call("auth.test")
                self._clients.forget(unknown)
                if not me.get("team_id") or not me.get("user_id"):
                    raise Unavailable("Slack did not say whose token SLACK_BOT_TOKEN is.")
                self._token = Token(
                    self._secret,
                    me["team_id"],
                    me["user_id"],
                    bot_id=me.get("bot_id"),
                    team_name=me.get("team"),
                    is_home=True,
                )
            token = self._token
        return token if token is not None and team_id in (None, token.team_id) else None
