"""Logging with structlog: one line per event, with ids but never with message text."""

import logging
import re
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

SECRET_FIELD = re.compile(r"(token|secret|password|api_?key|authorization)$", re.IGNORECASE)
# The lengths are bounded because every other address of a long text is a start.
SECRET_TEXT = re.compile(
    r"(sk-[A-Za-z0-9_-]{8,}|xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}|://[^/\s:@]{1,256}:[^@\s]{1,256}@|Bearer\s+\S+)"
)
# The credentials of people that were read last, which no line of the log may contain.
MAX_HIDDEN = 1000
_hidden: dict[str, None] = {}


def hide_in_logs(secret: str) -> None:
    """Keep this text out of all further lines."""
    _hidden.pop(secret, None)
    _hidden[secret] = None
    while len(_hidden) > MAX_HIDDEN:
        _hidden.pop(next(iter(_hidden)))


def configure_logging(level: str, style: str) -> None:
    """Send the logs of structlog and of the standard library to stderr, in the style `console` or `json`."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        # The default formatter prints the local variables of every frame, which may contain message text.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    output = logging.StreamHandler(sys.stderr)
    last: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if style == "json":
        last.append(structlog.processors.format_exc_info)
    output.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[*last, redact_rendered, renderer])
    )
    root = logging.getLogger()
    root.handlers[:] = [output]
    root.setLevel(level)
    # These libraries log every job and request at INFO, which the one line per turn makes redundant.
    for noisy in (
        "procrastinate",
        "httpx",
        "httpcore",
        "LiteLLM",
        "alembic",
        "uvicorn.access",
        "mcp",
        "psycopg.pool",
    ):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the values of fields whose names say that they are secrets."""
    for name in event:
        if SECRET_FIELD.search(name):
            event[name] = "***"
    return event


def redact_rendered(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace what looks like a key or a password inside text values, including tracebacks."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = SECRET_TEXT.sub("***", _without_hidden(value))
    return event


def _without_hidden(value: str) -> str:
    for secret in _hidden:
        if secret in value:
            value = value.replace(secret, "***")
    return value


def get_logger(**bound: Any) -> FilteringBoundLogger:
    """Return a logger with these fields bound."""
    logger: FilteringBoundLogger = structlog.get_logger(**bound)
    return logger
