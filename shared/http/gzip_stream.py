"""Decompression of a gzip response while it arrives, in pieces of bounded size."""

import zlib
from collections.abc import Iterator

from shared.errors import Unavailable

PIECE_BYTES = 64 * 1024
GZIP = zlib.MAX_WBITS | 16


class GzipStream:
    """Decompresses gzip piece by piece, so that the caller can stop before a bomb fills the memory."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._member = zlib.decompressobj(GZIP)

    @property
    def is_complete(self) -> bool:
        """Return whether the last gzip member has ended."""
        return self._member.eof

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what a chunk decompresses to; bytes after the last member that are not gzip are ignored.

        Raises `Unavailable` when the data is damaged.
        """
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
