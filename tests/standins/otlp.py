"""A stand-in for an OpenTelemetry collector: takes OTLP over HTTP on loopback and decodes the spans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What a collector has received: the bytes as they came, and the spans in them."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[bytes] = []

    @property
    def spans(self) -> list[Any]:
        """Return the spans in the order of their beginning."""
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        records = [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(records, key=lambda span: int(span.start_time_unix_nano))


@contextmanager
def opened_collector() -> Iterator[Collector]:
    """Serve a collector on a free port for the block."""
    collector = Collector()

    class Request(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/x-protobuf"
            collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Request) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever, name="collector")
        serving.start()
        yield collector
        server.shutdown()
        serving.join()


def attributes(span: Any) -> dict[str, Any]:
    """Return the attributes of a span as plain values."""
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in span.attributes
    }
