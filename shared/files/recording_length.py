"""A program that reads a recording from standard input and writes its length in seconds to standard output.

It runs in the sandbox; any failure means that the length can't be told.
"""

import io
import sys

from tinytag import TinyTag


def main() -> None:
    """Write the length of one recording."""
    tag = TinyTag.get(file_obj=io.BytesIO(sys.stdin.buffer.read()), tags=False)
    if not tag.duration or tag.duration <= 0:
        sys.exit("it has no length")
    sys.stdout.write(str(float(tag.duration)))


if __name__ == "__main__":
    main()
