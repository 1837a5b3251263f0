"""Logging with structlog: one line per event, with ids but never with message text."""

import logging
import re
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from shared.redaction import redact_field, redact_text

# structlog brings rich, a tenth of a second: a command of the terminal that logs nothing does not import it.
if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

# These libraries log every job and request at INFO, which the one line per turn makes redundant.
NOISY = ("httpx", "httpcore", "LiteLLM", "alembic", "uvicorn.access", "mcp")
# A value of a field in which one of these stands is written in quotes: also what would move a terminal's cursor or turn
# the direction of its text.
APART = re.compile(r"[\s=\"'\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class _Output(logging.StreamHandler[Any]):
    # The one handler of the process, whose lines have the fields of this `process`.
    def __init__(self, level: str, style: str, process: Mapping[str, object]) -> None:
        super().__init__(sys.stderr)
        self._level, self._style, self._process = level, style, process

    def load(self) -> None:
        """Set up structlog, unless that has been done."""
        if self.formatter is not None:
            return
        import structlog

        shared: list[Processor] = [
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ]
        renderer: Processor = write_line
        if self._style == "json":
            renderer = structlog.processors.JSONRenderer()
        elif sys.stderr.isatty():
            # It gets tracebacks as text: its own formatter prints the variables of every frame.
            renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        structlog.configure(
            processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
            wrapper_class=structlog.make_filtering_bound_logger(self._level),
            logger_factory=structlog.stdlib.LoggerFactory(),
            cache_logger_on_first_use=True,
        )
        last: list[Processor] = [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            redact,
            lambda _logger, _method, event: {**event, **self._process},
            renderer,
        ]
        self.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))

    def format(self, record: logging.LogRecord) -> str:
        self.load()
        return super().format(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        # A record that can't be formatted is named, not written with its arguments.
        error = sys.exc_info()[0]
        name = "an error" if error is None else error.__name__
        # Nobody may read it any more, or the disk is full: that ends nobody.
        with suppress(OSError):
            sys.stderr.write(f"a log line of {record.name} ({record.pathname}:{record.lineno}) is lost: {name}\n")


class _Logger:
    # A logger of structlog's, which is imported with the first line that is written.
    def __init__(self, bound: Mapping[str, object]) -> None:
        self._bound = bound
        self._logger: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._logger is None:
            outputs = _list_waiting()
            level = logging.getLevelNamesMapping().get(name.upper(), logging.CRITICAL)
            if outputs and not logging.getLogger().isEnabledFor(level):
                return _drop
            for output in outputs:
                output.load()
            import structlog

            self._logger = structlog.get_logger(**self._bound)
        return getattr(self._logger, name)


def _list_waiting() -> list[_Output]:
    """Return the handlers for which structlog is not set up yet."""
    return [
        output for output in logging.getLogger().handlers if isinstance(output, _Output) and output.formatter is None
    ]


def _drop(*_args: object, **_fields: object) -> None:
    """Take a line that the level leaves out."""


def configure_logging(level: str, style: str, *, is_late: bool = False, **process: object) -> None:
    """Send logs, warnings and uncaught exceptions to stderr without secrets, in the style `console` or `json`.

    Every line has the fields of this `process`, also the lines of loggers that were used before. With `is_late`,
    structlog is imported with the first line.
    """
    root, output = logging.getLogger(), _Output(level, style, process)
    # Once it is imported, by whomever, its loggers would go on as they were: by default, to stdout, with secrets.
    if not is_late or "structlog" in sys.modules:
        output.load()
    root.handlers[:] = [output]
    root.setLevel(level)
    for name in NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread
    sys.unraisablehook = _log_unraisable


def redact(_logger: "WrappedLogger", _method: str, event: "EventDict") -> "EventDict":
    """Take secrets out of all fields, at any depth, tracebacks included."""
    return {name: redact_field(name, value) for name, value in event.items()}


def write_line(_logger: "WrappedLogger", _method: str, event: "EventDict") -> str:
    """Return what structlog writes for a terminal, without colours and in a fraction of the time."""
    head = f"{event.pop('timestamp')} [{event.pop('level'):<9}] {event.pop('event', '')!s:<30}"
    below = [event.pop(name) for name in ("stack", "exception") if name in event]
    fields = [f"{name}={_to_word(event[name])}" for name in sorted(event)]
    return "\n".join([" ".join([head, *fields]).rstrip(" "), *below])


def _to_word(value: object) -> str:
    return value if isinstance(value, str) and not APART.search(value) else repr(value)


def drop_handlers(*names: str) -> None:
    """Let these loggers of libraries write through ours alone."""
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    else:
        get_logger().critical("uncaught_exception", exc_info=(kind, error, traceback))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        name = None if args.thread is None else args.thread.name
        trace = (args.exc_type, args.exc_value, args.exc_traceback)
        get_logger().critical("uncaught_exception", thread=name, exc_info=trace)


def _log_unraisable(args: "sys.UnraisableHookArgs") -> None:
    where = None if args.object is None else redact_text(repr(args.object))
    error = args.exc_value or args.exc_type()
    get_logger().error("ignored_exception", where=where, exc_info=(args.exc_type, error, args.exc_traceback))


def get_logger(**bound: Any) -> "FilteringBoundLogger":
    """Return a logger with these fields bound."""
    # What runs for long has imported structlog before the code that logs; a module may have, and not set it up.
    if (structlog := sys.modules.get("structlog")) is not None and not _list_waiting():
        return cast("FilteringBoundLogger", structlog.get_logger(**bound))
    return cast("FilteringBoundLogger", _Logger(bound))
