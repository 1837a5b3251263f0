"""Spans around the parts of a turn, with ids and numbers, and never with message text.

Tracing is set up once per process, as logging is. While it is off, a span costs nothing: no library is imported for it.

All spans of a message belong to one trace, in whatever process they are: the ids of the trace, and of its first span,
are made of the message's inbox row.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, Protocol

Value = str | int | float | bool | tuple[str, ...]
# None stands for an attribute that is not there.
Attributes = Mapping[str, Value | None]
Kind = Literal["internal", "client", "consumer", "producer"]


class Span(Protocol):
    """A span that is open."""

    def note(self, attributes: Attributes) -> None:
        """Add these attributes."""
        ...

    def fail(self, error_type: str) -> None:
        """Mark the span as failed; `error_type` is a code or the name of a class."""
        ...


class Tracer(Protocol):
    """Opens spans and exports them when they end. An exception that leaves a span's block marks it as failed."""

    def span(self, name: str, attributes: Attributes, kind: Kind) -> AbstractContextManager[Span]:
        """Open a span within the current one."""
        ...

    def span_of(
        self, inbox_id: int, name: str, attributes: Attributes, *, kind: Kind, seconds: float
    ) -> AbstractContextManager[Span]:
        """Open a span within the first one of a message's trace; it began `seconds` ago."""
        ...

    def record_first(self, inbox_id: int, name: str, attributes: Attributes, *, seconds: float) -> None:
        """Record the first span of a message's trace, which has just ended."""
        ...


class _NoSpan:
    def note(self, attributes: Attributes) -> None:
        """Do nothing."""

    def fail(self, error_type: str) -> None:
        """Do nothing."""


class _Current:
    # What this process traces with.
    tracer: Tracer | None = None


_NO_SPAN = _NoSpan()
_OFF: AbstractContextManager[Span] = nullcontext(_NO_SPAN)
_current = _Current()


@contextmanager
def traced_with(tracer: Tracer | None) -> Iterator[None]:
    """Trace this process with `tracer` while the block runs."""
    before, _current.tracer = _current.tracer, tracer
    try:
        yield
    finally:
        _current.tracer = before


def is_tracing() -> bool:
    """Tell whether spans are exported."""
    return _current.tracer is not None


def span(name: str, attributes: Attributes, *, kind: Kind = "internal") -> AbstractContextManager[Span]:
    """Open a span within the current one."""
    tracer = _current.tracer
    return _OFF if tracer is None else tracer.span(name, attributes, kind)


def span_of(
    inbox_id: int, name: str, attributes: Attributes, *, kind: Kind = "consumer", seconds: float = 0.0
) -> AbstractContextManager[Span]:
    """Open a span in the trace of a message; it began `seconds` ago."""
    tracer = _current.tracer
    return _OFF if tracer is None else tracer.span_of(inbox_id, name, attributes, kind=kind, seconds=seconds)


def record_first(inbox_id: int, name: str, attributes: Attributes, *, seconds: float) -> None:
    """Record the first span of a message's trace: its arrival, which took so many seconds."""
    if _current.tracer is not None:
        _current.tracer.record_first(inbox_id, name, attributes, seconds=seconds)
