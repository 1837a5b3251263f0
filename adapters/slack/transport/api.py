"""Calls of Slack's Web API, with errors sorted by what can be done about them."""

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
PASSING_CODES = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "unavailable"}
)
TOKEN_REMEDY = "Slack refuses the token; install the app again and set SLACK_BOT_TOKEN."  # noqa: S105  # a sentence
# Of the calls that Slack takes in a minute (20, 100, 50), those that may show an answer while it grows.
MINUTE = 60.0
SPARE = {"chat.startStream": 14, "chat.stopStream": 14, "chat.appendStream": 80, "chat.update": 35}
# How long one call waits in all when Slack asks to, and what it is asked to where it does not say.
PATIENCE, USUAL_WAIT = 120.0, 30.0

log = get_logger()


@dataclass(frozen=True, slots=True)
class Token:
    """A bot's token in one workspace, and who it is there.

    `is_home`: the workspace is the house's own, whose members are known by their bare ids; members of all others are
    `T…:U…`, because Slack gives ids per workspace.
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
        # `slack_code` is Slack's own word for it, like `not_in_channel`.
        self.slack_code = code
        super().__init__(reason=reason)


class TokenRefused(Unavailable):
    """Slack refuses the token; install the app again and set SLACK_BOT_TOKEN."""


class MethodLimits:
    """When each method may be called again, as Slack has asked of one token, and how often it was called of late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open_at: dict[str, float] = defaultdict(float)
        self._calls: dict[str, deque[float]] = defaultdict(deque)

    def note(self, method: str) -> None:
        """Count a call."""
        if method in SPARE:
            self._calls[method].append(self._clock.monotonic())

    def has_spare(self, *methods: str) -> bool:
        """Tell whether these can be called for what may as well be left out, and leave room for what may not."""
        since = self._clock.monotonic() - MINUTE
        for method in methods:
            calls = self._calls[method]
            while calls and calls[0] < since:
                calls.popleft()
            if self.wait_for(method) > 0 or len(calls) >= SPARE[method]:
                return False
        return True

    def wait_for(self, method: str) -> float:
        """Return how many seconds a method is closed for."""
        return max(0.0, self._open_at[method] - self._clock.monotonic())

    def close(self, method: str, seconds: float) -> None:
        """Close a method for a while."""
        self._open_at[method] = max(self._open_at[method], self._clock.monotonic() + seconds)


class Web:
    """The Web API with one token. `can_stream`: Slack has not said that it does not stream answers here."""

    def __init__(self, client: AsyncWebClient, token: Token, method_limits: MethodLimits) -> None:
        self.token, self.method_limits = token, method_limits
        self.can_stream = True
        self._client = client
        self._was_refused = False

    async def call(self, method: str, *, patience: float = PATIENCE, **arguments: Any) -> Json:
        """Call a method by Slack's name for it, like `chat.postMessage`.

        When Slack asks to wait it waits, for up to `patience` seconds in all. Raises `Refused` when it makes no sense
        to try again, `Unavailable` when it does.
        """
        left = patience
        while True:
            wait = self.method_limits.wait_for(method)
            if wait > left:
                raise Unavailable("Slack asks to wait.", retry_after=wait)
            await asyncio.sleep(wait)
            left -= wait
            try:
                return await self._call_once(method, arguments)
            except _AskedToWait as asked:
                self.method_limits.close(method, asked.seconds)
                log.info("slack_asks_to_wait", method=method, seconds=asked.seconds)

    async def find(self, method: str, *, patience: float = 0.0, **arguments: Any) -> Json | None:
        """Call a method whose answer can be done without; None when there is none just now."""
        try:
            return await self.call(method, patience=patience, **arguments)
        except (Refused, Unavailable) as error:
            log.info("slack_call_failed", method=method, cause=str(error))
            return None

    async def _call_once(self, method: str, arguments: Json) -> Json:
        self.method_limits.note(method)
        function = getattr(self._client, method.replace(".", "_"))
        try:
            answer = await function(**arguments)
        except SlackApiError as error:
            # The library's words hold the whole answer.
            raise self._sorted(method, error) from None
        except SlackRequestError as error:
            raise Refused("bad_request", str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable("Slack can't be reached just now.") from error
        self._was_refused = False
        return dict(answer.data) if isinstance(answer.data, dict) else {}

    def _sorted(self, method: str, error: SlackApiError) -> Exception:
        # What was no JSON comes as the HTTP library's own answer.
        response: Any = error.response
        told = getattr(response, "data", None)
        body: Json = told if isinstance(told, dict) else {}
        status = int(getattr(response, "status_code", None) or getattr(response, "status", 0) or 0)
        code = str(body.get("error") or "")
        if status == 429 or code in ("ratelimited", "rate_limited"):
            return _AskedToWait(_seconds(getattr(response, "headers", None)))
        if code in TOKEN_CODES:
            self._tell_refused(code)
            return TokenRefused(slack_code=code)
        if status >= 500 or not code or code in PASSING_CODES:
            return Unavailable(f"Slack can't take this just now ({method}: {code or status}).")
        reason = f"{method}: {code}"
        if code == "missing_scope":
            reason += f", it needs {body.get('needed')}"
            log.error("slack_scope_missing", method=method, needed=body.get("needed"))
        return Refused(code, reason)

    def _tell_refused(self, code: str) -> None:
        if not self._was_refused:
            log.error("slack_token_refused", team=self.token.team_id, code=code, remedy=TOKEN_REMEDY)
        self._was_refused = True


class _AskedToWait(Exception):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


def _seconds(headers: Any) -> float:
    try:
        return max(0.0, float((headers or {}).get("Retry-After", USUAL_WAIT)))
    except ValueError:
        return USUAL_WAIT
