"""A program that reads Markdown from standard input and writes it as HTML to standard output.

The time that Markdown takes can grow with the square of its length, so it is converted in a process that can be ended.
"""

import resource
import sys

from markdown_it import MarkdownIt

MEMORY_BYTES = 1024 * 1024 * 1024
CPU_SECONDS = 10


def main() -> None:
    """Convert one document; HTML in it is shown as text."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    sys.stdout.buffer.write(markdown.render(sys.stdin.buffer.read().decode()).encode())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
