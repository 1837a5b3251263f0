"""Calls of Slack's Web API; errors are classified by whether a retry makes sense."""

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

import aiohttp
from pydantic import SecretStr
from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient

from shared.clock import Clock
from shared.errors import Unavailable, Undeliverable
from shared.log import get_logger

Json = dict[str, Any]

TOKEN_CODES = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"})
TEMPORARY_CODES = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "unavailable"}
)
TOKEN_REMEDY = "Slack refuses the token; install the app again and set SLACK_BOT_TOKEN."  # noqa: S105  # a sentence
# Calls per minute that may be used for live text: less than Slack's limits (20, 20, 100, 50).
MINUTE = 60.0
LIVE_LIMITS = {"chat.startStream": 14, "chat.stopStream": 14, "chat.appendStream": 80, "chat.update": 35}
# Seconds that a call waits for rate limits in all, and the wait if Slack names none.
MAX_WAIT, DEFAULT_WAIT = 120.0, 30.0

log = get_logger()


@dataclass(frozen=True, slots=True)
class Token:
    """A bot token of one workspace, and the bot's ids there.

    `is_home`: it is our own workspace, whose members have bare ids; members of others are `T…:U…`, because Slack's ids
    are unique per workspace only.
    """

    secret: SecretStr
    team_id: str
    bot_user_id: str
    bot_id: str | None = None
    team_name: str | None = None
    is_home: bool = False


class Refused(Undeliverable):
    """Slack refuses this: {reason}."""

    def __init__(self, code: str, reason: str) -> None:
        # `slack_code` is Slack's error code, like `not_in_channel`.
        self.slack_code = code
        super().__init__(reason=reason)


class TokenRefused(Unavailable):
    """Slack refuses the token; install the app again and set SLACK_BOT_TOKEN."""


class MethodLimits:
    """Rate limits of one token: when each method may be called again, and how often it was called within a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open_at: dict[str, float] = defaultdict(float)
        self._calls: dict[str, deque[float]] = defaultdict(deque)

    def note(self, method: str) -> None:
        """Count a call."""
        if method in LIVE_LIMITS:
            self._calls[method].append(self._clock.monotonic())

    def has_spare(self, *methods: str) -> bool:
        """Return whether these methods may be called for live text and still leave calls for replies."""
        since = self._clock.monotonic() - MINUTE
        for method in methods:
            calls = self._calls[method]
            while calls and calls[0] < since:
                calls.popleft()
            if self.wait_for(method) > 0 or len(calls) >= LIVE_LIMITS[method]:
                return False
        return True

    def wait_for(self, method: str) -> float:
        """Return the seconds until a method may be called again."""
        return max(0.0, self._open_at[method] - self._clock.monotonic())

    def close(self, method: str, seconds: float) -> None:
        """Block a method for some seconds."""
        self._open_at[method] = max(self._open_at[method], self._clock.monotonic() + seconds)


class Web:
    """The Web API with one token. `can_stream` is False once Slack has refused to stream in this workspace."""

    def __init__(self, client: AsyncWebClient, token: Token, method_limits: MethodLimits) -> None:
        self.token, self.method_limits = token, method_limits
        self.can_stream = True
        self._client = client
        self._was_refused = False

    async def call(self, method: str, *, max_wait: float = MAX_WAIT, **arguments: Any) -> Json:
        """Call a method by its name in Slack's documentation, like `chat.postMessage`.

        Waits up to `max_wait` seconds in all when it is rate-limited. Raises `Refused` if a retry makes no sense,
        `Unavailable` if it does.
        """
        left = max_wait
        while True:
            wait = self.method_limits.wait_for(method)
            if wait > left:
                raise Unavailable("Slack asks to wait.", retry_after=wait)
            await asyncio.sleep(wait)
            left -= wait
            try:
                return await self._call_once(method, arguments)
            except _RateLimited as limited:
                self.method_limits.close(method, limited.seconds)
                log.info("slack_asks_to_wait", method=method, seconds=limited.seconds)

    async def find(self, method: str, *, max_wait: float = 0.0, **arguments: Any) -> Json | None:
        """Call a method whose result is optional; return None on any failure."""
        try:
            return await self.call(method, max_wait=max_wait, **arguments)
        except (Refused, Unavailable) as error:
            log.info("slack_call_failed", method=method, cause=str(error))
            return None

    async def _call_once(self, method: str, arguments: Json) -> Json:
        self.method_limits.note(method)
        function = getattr(self._client, method.replace(".", "_"))
        try:
            answer = await function(**arguments)
        except SlackApiError as error:
            # The library's message contains the whole response.
            raise self._classify(method, error) from None
        except SlackRequestError as error:
            raise Refused("bad_request", str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable("Slack can't be reached just now.") from error
        self._was_refused = False
        return dict(answer.data) if isinstance(answer.data, dict) else {}

    def _classify(self, method: str, error: SlackApiError) -> Exception:
        # For a response that is not JSON, the library passes on the HTTP client's own object.
        response: Any = error.response
        data = getattr(response, "data", None)
        body: Json = data if isinstance(data, dict) else {}
        status = int(getattr(response, "status_code", None) or getattr(response, "status", 0) or 0)
        code = str(body.get("error") or "")
        if status == 429 or code in ("ratelimited", "rate_limited"):
            return _RateLimited(_seconds(getattr(response, "headers", None)))
        if code in TOKEN_CODES:
            self._log_refused_token(code)
            return TokenRefused(slack_code=code)
        if status >= 500 or not code or code in TEMPORARY_CODES:
            return Unavailable(f"Slack can't accept this just now ({method}: {code or status}).")
        reason = f"{method}: {code}"
        if code == "missing_scope":
            reason += f", it needs {body.get('needed')}"
            log.error("slack_scope_missing", method=method, needed=body.get("needed"))
        return Refused(code, reason)

    def _log_refused_token(self, code: str) -> None:
        if not self._was_refused:
            log.error("slack_token_refused", team=self.token.team_id, code=code, remedy=TOKEN_REMEDY)
        self._was_refused = True


class _RateLimited(Exception):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


def _seconds(headers: Any) -> float:
    try:
        return max(0.0, float((headers or {}).get("Retry-After", DEFAULT_WAIT)))
    except ValueError:
        return DEFAULT_WAIT
