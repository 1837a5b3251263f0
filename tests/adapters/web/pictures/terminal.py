"""A program in a terminal of 88 columns, and the screen that it leaves."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.source_tree import ROOT

COLUMNS, ROWS = 88, 40
# What rich writes to go back: to the line's beginning, a line up, and to clear one. It also hides the cursor.
STEP = re.compile(r"\r\n|\n|\r|\x1b\[1A|\x1b\[2K|\x1b\[\?\d+[hl]|[^\r\n\x1b]+|\x1b\[[\d;]*m")


async def run(folder: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """Run `parley` in a terminal and return all that it writes."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters.cli", *arguments),
        stdin=there,
        stdout=there,
        stderr=there,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor", **environment},
        start_new_session=True,
    )
    os.close(there)
    output = await asyncio.to_thread(read_all, here)
    assert await process.wait() == 0, output
    return output


def read_all(descriptor: int) -> str:
    """Read what comes until the program has closed its side, which Linux tells as an error."""
    parts = []
    with suppress(OSError):
        while part := os.read(descriptor, 65536):
            parts.append(part)
    os.close(descriptor)
    return b"".join(parts).decode()


def to_screen(output: str) -> str:
    """Return the lines that stay, with their colours."""
    lines, row = [""], 0
    for step in STEP.findall(output):
        match step:
            case "\r\n" | "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            case "\x1b[1A":
                row = max(0, row - 1)
            case "\x1b[2K":
                lines[row] = ""
            case _ if step != "\r" and not step.startswith("\x1b[?"):
                lines[row] += step
    return "\n".join(lines).rstrip()


def draw(command: str, screen: str, layout: str) -> str:
    """Return an SVG of a command and the screen that it left."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, highlight=False)
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text.from_ansi(screen))
    return console.export_svg(title="parley", theme=MONOKAI, code_format=layout, unique_id="parley")
