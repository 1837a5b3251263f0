"""Unpacking of compressed answers, a small piece at a time."""

import zlib
from collections.abc import Iterator

from shared.errors import Unavailable

PIECE_BYTES = 64 * 1024
GZIP = zlib.MAX_WBITS | 16


class Gunzip:
    """Unpacks gzip in small pieces, so that a bomb is noticed before it is in memory."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._member = zlib.decompressobj(GZIP)

    @property
    def is_complete(self) -> bool:
        """Tell whether the last member has ended."""
        return self._member.eof

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Give what a chunk unpacks to; what follows the last member is no gzip and ignored."""
        while chunk:
            if self._member.eof:
                if not chunk.startswith(b"\x1f"):
                    return
                self._member = zlib.decompressobj(GZIP)
            try:
                piece = self._member.decompress(chunk, PIECE_BYTES)
            except zlib.error as error:
                raise Unavailable(f"The answer of {self._host} is damaged.") from error
            if piece:
                yield piece
            chunk = self._member.unconsumed_tail or self._member.unused_data
