"""A server that speaks S3, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from moto.server import ThreadedMotoServer

IMPORT_SECONDS = 60


@contextmanager
def serving_s3() -> Iterator[int]:
    """Serve empty buckets for the block; yields the port. It has answered once: the first answer takes imports."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        httpx.get(f"http://127.0.0.1:{port}/none?location=", timeout=IMPORT_SECONDS)
        yield port
    finally:
        server.stop()
