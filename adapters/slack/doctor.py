"""The checks of `parley doctor` for Slack: tokens, scopes, request URLs, and the installations."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import aiohttp
from pydantic import SecretStr
from slack_sdk.errors import SlackApiError, SlackRequestError

from adapters.base import Finding
from adapters.slack.install import SCOPES
from adapters.slack.settings import SlackSettings
from adapters.slack.transport import PATHS
from adapters.slack.transport.api import (
    HISTORY_REMEDY,
    MethodLimits,
    RateLimited,
    Refused,
    TokenRefused,
    Web,
)
from adapters.slack.transport.clients import Clients
from adapters.slack.transport.limits import MOST_OBJECTS
from adapters.slack.transport.socket import AppTokenRefused
from adapters.slack.transport.token import Token
from shared.clock import SystemClock
from shared.errors import Unavailable
from shared.settings import Settings

if TYPE_CHECKING:
    from adapters.slack.platform import SlackPlatform

AGAIN = (
    "put the manifest of `parley slack manifest` into the app's page and install the app again; an app with the older"
    " assistant panel keeps it with `parley slack manifest --keep-panel`, and docs/slack.md says what changes without"
)
UNSEEN = (
    "Slack does not let an app see its event subscriptions; when messages don't arrive, compare the app's manifest with"
    " `parley slack manifest`"
)
# Only the last of them shows that the token is invalid; with the others, Slack has not checked it.
WRONG_TOKEN = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"})
WRONG_KIND = "not_allowed_token_type"


async def examine(platform: "SlackPlatform", program: Settings) -> AsyncGenerator[Finding]:
    """Yield the findings about everything that Slack and the settings say about the app."""
    settings = platform.settings
    async with aclosing(Clients(settings, SystemClock())) as clients:
        if settings.bot_token is not None:
            async for finding in _look_at_bot_token(clients, settings.bot_token):
                yield finding
        yield await _look_at_connection(clients, settings, program.public_url)
        if settings.client_id is not None:
            yield _look_at_installing(settings, program.public_url)
        yield Finding("ok", f"events: {UNSEEN}")


async def _look_at_connection(clients: Clients, settings: SlackSettings, public_url: str | None) -> Finding:
    if settings.app_token is not None:
        try:
            await clients.library_client().apps_connections_open(app_token=settings.app_token.get_secret_value())
        except (SlackApiError, SlackRequestError, aiohttp.ClientError, TimeoutError, OSError) as error:
            kind = "SLACK_APP_TOKEN begins with xapp- and has the scope connections:write"
            return _explain(error, str(AppTokenRefused()), f"{kind}; this one is of another kind")
        return Finding("ok", "Socket Mode: Slack gives a connection")
    if settings.signing_secret is None:
        text = "neither SLACK_APP_TOKEN (Socket Mode) nor SLACK_SIGNING_SECRET (HTTP) is set; nothing can arrive"
        return Finding("fail", text)
    if public_url is None:
        text = "HTTP: PUBLIC_URL is not set, so Slack has no address to send to; set it, or use a socket"
        return Finding("fail", text)
    if not public_url.startswith("https://"):
        return Finding("warn", f"HTTP: Slack sends to https addresses alone, and PUBLIC_URL is {public_url}")
    return Finding("ok", f"HTTP: Slack sends to {public_url.rstrip('/')}{PATHS[0]}")


async def _look_at_bot_token(clients: Clients, secret: SecretStr) -> AsyncGenerator[Finding]:
    client = clients.library_client(secret.get_secret_value())
    try:
        me = await client.auth_test()
    except (SlackApiError, SlackRequestError, aiohttp.ClientError, TimeoutError, OSError) as error:
        yield _explain(error, str(TokenRefused()), "SLACK_BOT_TOKEN begins with xoxb-; this one is of another kind")
        return
    yield Finding("ok", f"the token is {me['user']}'s in {me['team']}")
    headers: Any = me.headers
    scopes = set(str(headers.get("x-oauth-scopes", "")).replace(" ", "").split(",")) - {""}
    if missing_scopes := sorted(set(SCOPES) - scopes):
        yield Finding("fail", f"scopes: {', '.join(missing_scopes)} are missing; {AGAIN}")
    elif more := sorted(scopes - set(SCOPES)):
        yield Finding("warn", f"scopes: {', '.join(more)} are more than it needs; {AGAIN}")
    else:
        yield Finding("ok", f"scopes: all {len(SCOPES)}, and no other")
    history = await _look_at_history(Web(client, Token(secret, "", ""), MethodLimits(SystemClock())))
    if history is not None:
        yield history


async def _look_at_history(web: Web) -> Finding | None:
    """Warn if Slack gives a history once a minute; two calls show it in any channel. None if there is no channel."""
    page = await web.find("users.conversations", types="public_channel,private_channel", limit=1)
    channels = [str(conversation["id"]) for conversation in (page or {}).get("channels", ())]
    try:
        for channel in channels * 2:
            if not web.is_history_limited:
                await web.call("conversations.history", max_wait=0, channel=channel, limit=MOST_OBJECTS + 1)
    except RateLimited as error:
        if not web.is_history_limited:
            return Finding("ok", f"history: not checked, as Slack asks to wait {error.retry_after or 0:.0f} s")
    except (Refused, Unavailable) as error:
        return Finding("warn", f"history: {error}")
    if web.is_history_limited:
        return Finding("warn", f"history: {HISTORY_REMEDY}")
    return Finding("ok", "history: as often as an internal app may read it") if channels else None


def _look_at_installing(settings: SlackSettings, public_url: str | None) -> Finding:
    if settings.client_secret is None:
        return Finding("fail", "installing: SLACK_CLIENT_ID is set and SLACK_CLIENT_SECRET is not; copy it as well")
    if public_url is None:
        return Finding("fail", "installing: PUBLIC_URL is not set, so nobody can install the app into their workspace")
    return Finding("ok", f"installing: {public_url.rstrip('/')}/slack/install")


def _explain(error: Exception, wrong_token: str, wrong_kind: str) -> Finding:
    body = getattr(getattr(error, "response", None), "data", None)
    code = str(body.get("error") or "") if isinstance(body, dict) else ""
    if code in WRONG_TOKEN:
        return Finding("fail", f"{wrong_token} ({code})")
    if code == WRONG_KIND:
        return Finding("fail", wrong_kind)
    if code == "socket_mode_not_enabled":
        return Finding("fail", f"Socket Mode is off in the app; switch it on, or {AGAIN}")
    if code:
        return Finding("fail", f"Slack says {code}")
    return Finding("fail", f"Slack can't be reached just now: {type(error).__name__}", is_outage=True)
