"""Limits for requests at the level of the HTTP parser: the size of headers is bounded for every client."""

import json
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

# Several times the size of usual cookies, tokens and URLs.
MAX_HEAD_BYTES = 64 * 1024
SENTENCE = f"The address and the headers of a request may have {MAX_HEAD_BYTES // 1024} KB together."
REFUSAL = json.dumps({"error": {"code": "headers_too_large", "message": SENTENCE}}).encode()
ANSWER = b"\r\n".join([
    b"HTTP/1.1 431 Request Header Fields Too Large",
    b"content-type: application/json",
    b"content-length: %d" % len(REFUSAL),
    b"connection: close",
    b"",
    REFUSAL,
])  # fmt: skip


class BoundedProtocol(HttpToolsProtocol):
    """Closes the connection if headers, or what follows the body, grow without end: the parser keeps all of them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._kept = 0
        self._is_in_head = True

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, and count those that are not part of a body."""
        self._kept += len(data)
        super().data_received(data)
        if self._kept <= MAX_HEAD_BYTES or self.transport.is_closing():
            return
        # It is None before the first request, despite its type.
        cycle = cast(RequestResponseCycle | None, self.cycle)
        if self._is_in_head and (cycle is None or cycle.response_complete):
            self.transport.write(ANSWER)
            self.transport.close()
        else:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        """Start a request."""
        self._kept, self._is_in_head = 0, False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receive a part of the body."""
        self._kept = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Finish the request."""
        self._kept, self._is_in_head = 0, True
        super().on_message_complete()
