"""Calls of Slack's Web API; errors are classified by whether a retry makes sense."""

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from msgspec import Struct
from slack_sdk.errors import SlackApiError, SlackRequestError
from slack_sdk.web.async_client import AsyncWebClient

from adapters import base
from adapters.slack.transport.limits import (
    HISTORY_METHODS,
    LONG_WAIT,
    MOST_OBJECTS,
    MethodLimits,
    Passage,
    RateLimited,
)
from adapters.slack.transport.token import Token
from shared.errors import Unavailable
from shared.log import get_logger

__all__ = ["Json", "MethodLimits", "RateLimited", "Refused", "Token", "TokenRefused", "Web"]

Json = dict[str, Any]
# Raises when the call must not be made any more.
Check = Callable[[], Awaitable[None]]

TOKEN_CODES = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"})
TEMPORARY_CODES = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "unavailable"}
)
TOKEN_REMEDY = "Slack refuses the token; install the app again and set SLACK_BOT_TOKEN."  # noqa: S105  # a sentence
APP_TOKEN_METHOD = "apps.connections.open"  # noqa: S105  # the method that is called with the app-level token
APP_TOKEN_REMEDY = (
    "Slack refuses the app-level token; make one with the scope connections:write and set SLACK_APP_TOKEN."  # noqa: S105  # a sentence
)
HISTORY_REMEDY = (
    "Slack gives this app a history once a minute, 15 messages at a time, as it does to apps that are distributed"
    " commercially outside its Marketplace. In a thread it then knows the messages that it has seen itself. An internal"
    " app of your own workspace, or one in the Marketplace, has no such limit."
)
# Seconds that a call waits for rate limits in all, and the wait if Slack names none.
MAX_WAIT, DEFAULT_WAIT = 120.0, 30.0

log = get_logger()


class Refused(base.Refused):
    """Slack refuses this: {reason}."""


class TokenRefused(Unavailable):
    """Slack refuses the token; install the app again and set SLACK_BOT_TOKEN."""


class Wait(Struct, frozen=True):
    """Slack asks to wait so many seconds before the next call."""

    seconds: float


class Web:
    """The Web API with one token.

    `can_stream` and `is_agent` are False once Slack has refused streams or agent sessions in this workspace;
    `is_history_limited` is True once Slack has given less of a history than it gives internal apps. `finishing`: by
    channel and thread, the attempt that is still to show there that the agent has finished.
    """

    def __init__(self, client: AsyncWebClient, token: Token, method_limits: MethodLimits) -> None:
        self.token, self.method_limits = token, method_limits
        self.can_stream = self.is_agent = True
        self.is_history_limited = False
        self.finishing: dict[tuple[str, str | None], object] = {}
        self._client = client
        self._was_refused = False

    async def call(
        self, method: str, *, max_wait: float = MAX_WAIT, check: Check | None = None, **arguments: Any
    ) -> Json:
        """Call a method by its name in Slack's documentation, like `chat.postMessage`.

        Waits up to `max_wait` seconds in all when it is rate-limited, and awaits `check` after each wait. Raises
        `Refused` if a retry makes no sense, `Unavailable` if it does.
        """
        gate = self.method_limits.gate(method, str(arguments.get("channel") or ""))
        answer: Json | None = None
        while answer is None:
            async with gate.passing(max_wait) as passage:
                answer = await self._try(passage, method, arguments, check=check)
                # A call that was made before there was a queue joins it now.
                while answer is None and passage.is_held:
                    answer = await self._try(passage, method, arguments, check=check)
            max_wait = passage.max_wait
        return answer

    async def _try(self, passage: Passage, method: str, arguments: Json, check: Check | None) -> Json | None:
        """Make one call; return None if Slack asks to wait."""
        await passage.wait()
        if check is not None:
            await check()
        self.method_limits.note(method)
        function = getattr(self._client, method.replace(".", "_"))
        try:
            answer = await function(**arguments)
        except SlackApiError as error:
            verdict = self._classify(method, error)
            if not isinstance(verdict, Wait):
                # The library's message contains the whole response.
                raise verdict from None
            log.info("slack_asks_to_wait", method=method, seconds=verdict.seconds)
            await passage.close(verdict.seconds)
            self._note_history(method, is_limited=verdict.seconds >= LONG_WAIT)
            return None
        except SlackRequestError as error:
            raise Refused("bad_request", str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable("Slack can't be reached just now.") from error
        self._was_refused = False
        parameters = dict(answer.data) if isinstance(answer.data, dict) else {}
        is_cut = len(parameters.get("messages") or ()) == MOST_OBJECTS and bool(parameters.get("has_more"))
        self._note_history(method, is_limited=is_cut and arguments.get("limit", 0) > MOST_OBJECTS)
        return parameters

    async def find(self, method: str, *, max_wait: float = 0.0, **arguments: Any) -> Json | None:
        """Call a method whose result is optional; return None on any failure."""
        try:
            return await self.call(method, max_wait=max_wait, **arguments)
        except (Refused, Unavailable) as error:
            log.info("slack_call_failed", method=method, cause=str(error))
            return None

    async def open_direct(self, account: str) -> str:
        """Return the channel of the direct messages with a person."""
        opened = await self.call("conversations.open", users=account.rpartition(":")[2])
        return str(opened["channel"]["id"])

    def _note_history(self, method: str, *, is_limited: bool) -> None:
        if is_limited and method in HISTORY_METHODS and not self.is_history_limited:
            self.is_history_limited = True
            log.warning("slack_history_limited", team=self.token.team_id or None, method=method, remedy=HISTORY_REMEDY)

    def _classify(self, method: str, error: SlackApiError) -> Exception | Wait:
        # For a response that is not JSON, the library passes on the HTTP client's own object.
        response: Any = error.response
        data = getattr(response, "data", None)
        body: Json = data if isinstance(data, dict) else {}
        status = int(getattr(response, "status_code", None) or getattr(response, "status", 0) or 0)
        code = str(body.get("error") or "")
        if status == 429 or code in ("ratelimited", "rate_limited"):
            headers = getattr(response, "headers", None) or {}
            try:
                return Wait(max(0.0, float(headers.get("Retry-After", DEFAULT_WAIT))))
            except ValueError:
                return Wait(DEFAULT_WAIT)
        if code in TOKEN_CODES:
            remedy = APP_TOKEN_REMEDY if method == APP_TOKEN_METHOD else TOKEN_REMEDY
            if not self._was_refused:
                log.error("slack_token_refused", team=self.token.team_id or None, code=code, remedy=remedy)
            self._was_refused = True
            return TokenRefused(slack_code=code)
        if status >= 500 or not code or code in TEMPORARY_CODES:
            return Unavailable(f"Slack can't accept this just now ({method}: {code or status}).")
        reason = f"{method}: {code}"
        if code == "missing_scope":
            reason += f", it needs {body.get('needed')}"
            log.error("slack_scope_missing", method=method, needed=body.get("needed"))
        return Refused(code, reason)
