"""What a provider's answers and errors mean, in our words."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from agent.completions import Cause, Completion, RouteFailed, ToolCall
from shared.clock import Clock
from shared.messages import Usage

CAUSES = {
    200: Cause.MALFORMED,
    401: Cause.KEY_REFUSED,
    402: Cause.OUT_OF_CREDIT,
    403: Cause.KEY_REFUSED,
    404: Cause.MODEL_UNKNOWN,
    408: Cause.TIMED_OUT,
    409: Cause.UNREACHABLE,
    413: Cause.TOO_LONG,
    429: Cause.RATE_LIMITED,
}


def to_failure(error: Exception, clock: Clock) -> RouteFailed:
    """Return what litellm's error says about the route."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return RouteFailed(Cause.UNREACHABLE)
    if type(error).__name__ == "ContextWindowExceededError":
        return RouteFailed(Cause.TOO_LONG, status=status)
    if status == 429 and "insufficient_quota" in str(error):
        return RouteFailed(Cause.OUT_OF_CREDIT, status=status)
    cause = CAUSES.get(status, Cause.UNREACHABLE if status >= 500 else Cause.REQUEST_REFUSED)
    headers = getattr(error, "litellm_response_headers", None)
    return RouteFailed(cause, status=status, retry_after=_retry_after(headers or {}, clock))


def to_usage(given: Any) -> Usage | None:
    """Return the provider's own count without its cost, never below zero; None when it gave none."""
    if given is None:
        return None
    details = getattr(given, "prompt_tokens_details", None)
    input_tokens = _count(getattr(given, "prompt_tokens", 0))
    output_tokens = _count(getattr(given, "completion_tokens", 0))
    # litellm writes zeros where the provider said nothing; no prompt is of no tokens.
    if not input_tokens:
        return None
    cached_tokens = min(_count(getattr(details, "cached_tokens", 0)), input_tokens)
    return Usage(input_tokens, cached_tokens, output_tokens)


def to_completion(
    name: str, text: str, tool_calls: tuple[ToolCall, ...], finish_reason: str | None, usage: Usage
) -> Completion:
    """Return the answer; raises `RouteFailed` for one that says nothing and wants nothing."""
    if finish_reason == "length":
        # The last call is cut, and the ones before it may count on it.
        return Completion(text, (), "max_tokens", usage, name)
    if tool_calls:
        return Completion(text, tool_calls, "tool_use", usage, name)
    if not text.strip():
        raise RouteFailed(Cause.EMPTY, usage=usage)
    return Completion(text, (), "end_turn", usage, name)


def _count(value: Any) -> int:
    return max(0, value) if isinstance(value, int) else 0


def _retry_after(headers: Mapping[str, str], clock: Clock) -> float | None:
    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(given) - clock.now()).total_seconds())
    except (ValueError, TypeError):
        # Neither seconds nor a date with a zone: as good as no header.
        return None
