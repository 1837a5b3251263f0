"""Converts errors of providers to our types."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from agent.llm.completions import Cause, RouteFailed
from agent.llm.providers.openai_api import ServerError
from shared.clock import Clock

CAUSES = {
    200: Cause.MALFORMED,
    401: Cause.KEY_REFUSED,
    402: Cause.OUT_OF_CREDIT,
    403: Cause.KEY_REFUSED,
    404: Cause.MODEL_UNKNOWN,
    408: Cause.TIMED_OUT,
    409: Cause.UNREACHABLE,
    429: Cause.RATE_LIMITED,
}
# Status codes of refusals that may be about the prompt's length; 500 is from some self-hosted servers.
TOO_LONG_STATUS = (400, 422, 500)
MESSAGE_CHARS = 4000
# The errors of httpx and aiohttp about a connection that is lost while an answer is awaited or read.
BROKEN_OFF = frozenset(
    """
    ReadError ReadTimeout RemoteProtocolError
    ClientOSError ClientPayloadError ServerDisconnectedError SocketTimeoutError
    """.split()  # noqa: SIM905  # two lines, one of each library
)
TOO_LONG = re.compile(
    r"context[ _-]?(?:length|window|limit|size)|context (?:the overflows|overflow)|maximum (?:prompt|input) length"
    r"|(?:prompt|input) is too long|prompt contains \d+ tokens|input token count|too many (?:input |total )?tokens"
    r"|max(?:imum)? number of tokens|reduce the length|inputs` tokens|longer than the model",
    re.IGNORECASE,
)
# How servers report that a model accepts no images; some report an internal error or an unknown endpoint.
IMAGES_REFUSED_STATUS = (400, 404, 415, 422, 500, 501)
IMAGES_REFUSED = re.compile(
    r"(?:images?|image[ _-]?url|image[ _-]?input|multi-?modal|vision)\b.{0,60}"
    r"(?:not (?:\w+ )?support|unsupported|not (?:\w+ )?allowed|not (?:\w+ )?enabled|expected `?text)"
    r"|(?:not support|no endpoints found that support|unsupported|not a|cannot|can't).{0,60}"
    r"(?:images?|image[ _-]?url|multi-?modal|vision)\b|mmproj",
    re.IGNORECASE | re.DOTALL,
)
# How providers report that they let neither this prompt nor an answer to it pass.
FILTERED_STATUS = (400, 403, 422)
FILTERED = re.compile(
    r"content[ _-](?:filter|policy|management policy)|ContentPolicyViolation|ResponsibleAIPolicy|safety system"
    r"|moderation",
    re.IGNORECASE,
)
TOO_LARGE = re.compile(r"request too large|input or output tokens must be reduced", re.IGNORECASE)
N = r"\D{0,4}(\d[\d,]*)"
WINDOW = re.compile(
    rf"(?:context length is(?: only)?|context length of(?: only)?|(?:prompt|input) length is|context limit:.{{0,40}}>"
    rf"|context size \(|tokens allowed|tokens >|must be <=|limit is|\bLimit){N}"
    r"|(?<![\d,])(\d[\d,]*) maximum context length",
    re.IGNORECASE,
)
# The pause that Google asks for, in the answer instead of a header.
PAUSE = re.compile(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')
COUNTED = re.compile(
    rf"(?:resulted in|requested(?: about)?|request contains|token count|too long:|prompt contains|current length is){N}"
    r"|context limit: (\d+)",
    re.IGNORECASE,
)


def to_failure(error: Exception, clock: Clock) -> RouteFailed:
    """Convert an error of litellm or of our own client to `RouteFailed`."""
    # litellm wraps what a provider answers instead of a stream.
    error = getattr(error, "original_exception", None) or error
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        return RouteFailed(Cause.TIMED_OUT if isinstance(error, TimeoutError) else Cause.UNREACHABLE)
    message = str(error)[:MESSAGE_CHARS]
    if type(error).__name__ == "ContextWindowExceededError" or is_too_long(status, message):
        return RouteFailed(
            Cause.TOO_LONG, status=status, window=_number(WINDOW, message), counted=_number(COUNTED, message)
        )
    if status == 429 and "insufficient_quota" in str(error):
        return RouteFailed(Cause.OUT_OF_CREDIT, status=status)
    if status in FILTERED_STATUS and FILTERED.search(message):
        return RouteFailed(Cause.FILTERED, status=status)
    if status in IMAGES_REFUSED_STATUS and IMAGES_REFUSED.search(message):
        return RouteFailed(Cause.IMAGES_REFUSED, status=status)
    cause = CAUSES.get(status, Cause.UNREACHABLE if status >= 500 else Cause.REQUEST_REFUSED)
    headers = error.headers if isinstance(error, ServerError) else getattr(error, "litellm_response_headers", None)
    retry_after = _retry_after(headers or {}, clock)
    if retry_after is None and (pause := PAUSE.search(message)) and status == 429:
        retry_after = float(pause[1])
    return RouteFailed(cause, status=status, retry_after=retry_after)


def may_be_billed(error: BaseException) -> bool:
    """Return whether the request had been sent when this error came, so that the provider may charge for the answer.

    So it is with an answer that can't be read, and with a connection that broke, or stayed silent, after the request.
    """
    if getattr(error, "status_code", None) == 200:
        return True
    ids: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in ids:
        if type(cause).__name__ in BROKEN_OFF:
            return True
        ids.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def is_too_long(status: int, message: str) -> bool:
    """Return whether the provider refused the prompt as too long, judged by status code and message."""
    if status == 429:
        # A prompt that is larger than the limit per minute never fits, so waiting does not help.
        return TOO_LARGE.search(message) is not None
    return status == 413 or (status in TOO_LONG_STATUS and TOO_LONG.search(message) is not None)


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    match = pattern.search(message)
    return int(next(filter(None, match.groups())).replace(",", "")) if match else None


def _retry_after(headers: Mapping[str, str], clock: Clock) -> float | None:
    header = headers.get("retry-after")
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(header) - clock.now()).total_seconds())
    except (ValueError, TypeError):
        # Neither seconds nor a date with a zone: treated as no header.
        return None
