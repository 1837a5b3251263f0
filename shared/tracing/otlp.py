"""Exports spans by OTLP over HTTP, with OpenTelemetry's own library, which reads its other variables (`OTEL_…`) itself.

The provider is not made the process's own: libraries that trace into that one (mcp, a2a) would export texts.
"""

import hmac
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from shared.clock import Clock
from shared.redaction import redact_field, redact_text
from shared.tracing.spans import Attributes, Kind, Value

KINDS = {
    "internal": trace.SpanKind.INTERNAL,
    "client": trace.SpanKind.CLIENT,
    "consumer": trace.SpanKind.CONSUMER,
    "producer": trace.SpanKind.PRODUCER,
}
UNNAMED = "unknown_service"
CLOSE_SECONDS = 2.0
SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)


class _Ids(RandomIdGenerator):
    # Random ids, except for the first span of a message's trace. The library calls a generator without arguments while
    # it starts a span, so that a context variable is the only way to hand ids in.
    def __init__(self) -> None:
        self.first: ContextVar[tuple[int, int] | None] = ContextVar("first", default=None)

    def generate_trace_id(self) -> int:
        ids = self.first.get()
        return super().generate_trace_id() if ids is None else ids[0]

    def generate_span_id(self) -> int:
        ids = self.first.get()
        return super().generate_span_id() if ids is None else ids[1]


class _Open:
    # An open span as a context manager; exceptions are noted by their class, because their texts may hold messages.
    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._token: Any = None
        self._has_failed = False

    def note(self, attributes: Attributes) -> None:
        self._span.set_attributes(_present(attributes))

    def fail(self, error_type: str) -> None:
        self._has_failed = True
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(trace.StatusCode.ERROR)

    def __enter__(self) -> "_Open":
        self._token = contexts.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and not self._has_failed:
            self.fail(kind.__name__)
        contexts.detach(self._token)
        self._span.end()


class OtlpTracer:
    """Exports spans in the background; `key` makes the ids of traces, so that all processes make the same ones."""

    def __init__(self, endpoint: str, key: str, *, version: str, clock: Clock) -> None:
        self._key, self._clock = key.encode(), clock
        self._ids = _Ids()
        resource = Resource.create({SERVICE_VERSION: version})
        if str(resource.attributes[SERVICE_NAME]).startswith(UNNAMED):
            resource = resource.merge(Resource({SERVICE_NAME: "parley"}))
        self._provider = TracerProvider(id_generator=self._ids, resource=resource, shutdown_on_exit=False)
        self._exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("parley", version)

    def span(self, name: str, attributes: Attributes, kind: Kind) -> _Open:
        """Open a span within the current one."""
        return _Open(self._tracer.start_span(name, kind=KINDS[kind], attributes=_present(attributes)))

    def span_of(self, inbox_id: int, name: str, attributes: Attributes, *, kind: Kind, seconds: float) -> _Open:
        """Open a span within the first one of a message's trace; it began `seconds` ago."""
        trace_id, span_id = self._ids_of(inbox_id)
        first = trace.NonRecordingSpan(trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=SAMPLED))
        span = self._tracer.start_span(
            name,
            trace.set_span_in_context(first, contexts.Context()),
            KINDS[kind],
            attributes=_present(attributes),
            start_time=self._before(seconds),
        )
        return _Open(span)

    def record_first(self, inbox_id: int, name: str, attributes: Attributes, *, seconds: float) -> None:
        """Record the first span of a message's trace, which has just ended."""
        token = self._ids.first.set(self._ids_of(inbox_id))
        try:
            ended = self._tracer.start_span(
                name,
                contexts.Context(),
                trace.SpanKind.PRODUCER,
                attributes=_present(attributes),
                start_time=self._before(seconds),
            )
        finally:
            self._ids.first.reset(token)
        ended.end()

    def close(self) -> None:
        """Export what is left, and end the background thread."""
        # A collector that does not answer would be tried again for ten seconds.
        limit = threading.Timer(CLOSE_SECONDS, self._exporter.shutdown)
        limit.start()
        self._provider.shutdown()
        limit.cancel()

    def _before(self, seconds: float) -> int:
        return int((self._clock.now().timestamp() - seconds) * 1e9)

    def _ids_of(self, inbox_id: int) -> tuple[int, int]:
        digest = hmac.digest(self._key, b"parley trace %d" % inbox_id, "sha256")
        return int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")


@contextmanager
def opened_tracer(endpoint: str, key: str, *, version: str, clock: Clock) -> Iterator[OtlpTracer]:
    """Open a tracer for the block."""
    tracer = OtlpTracer(endpoint, key, version=version, clock=clock)
    try:
        yield tracer
    finally:
        tracer.close()


def _present(attributes: Attributes) -> dict[str, Value]:
    return {
        name: tuple(map(redact_text, value)) if isinstance(value, tuple) else redact_field(name, value)
        for name, value in attributes.items()
        if value is not None
    }
