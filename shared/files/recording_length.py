"""A program that reads a recording from standard input and writes its length in seconds to standard output.

Because the input is untrusted, the program limits its own memory and CPU time; any failure means that the length can't
be told.
"""

import io
import resource
import sys

from tinytag import TinyTag

MEMORY_BYTES = 512 * 1024 * 1024
CPU_SECONDS = 5


def main() -> None:
    """Write the length of one recording."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = TinyTag.get(file_obj=io.BytesIO(sys.stdin.buffer.read()), tags=False)
    if not found.duration or found.duration <= 0:
        sys.exit("it has no length")
    sys.stdout.write(str(float(found.duration)))


if __name__ == "__main__":
    main()
