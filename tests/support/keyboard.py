"""A person at a real terminal."""

import os
import pty
import re
import select
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from subprocess import Popen

from tests.adapters.cli.shell import PARLEY, Shell
from tests.support.eventually import PATIENCE
from tests.support.forks import get_command

# What is written to move on the screen and to wipe a line; all else only changes how letters look.
MOVES = re.compile(r"\r|\n|\x1b\[2K|\x1b\[1A|\x1b\[[0-9;?]*[A-Za-z]")


def to_screen(written: str) -> str:
    """Return what is to be read on the screen after this was written to a terminal."""
    lines, row, column, last = [""], 0, 0, 0
    for move in [*MOVES.finditer(written), None]:
        text = written[last : move.start() if move else None]
        lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
        column += len(text)
        if move is None:
            break
        last = move.end()
        match move[0]:
            case "\r":
                column = 0
            case "\n":
                row, column = row + 1, 0
                lines += [""] * (row - len(lines) + 1)
            case "\x1b[2K":
                lines[row] = ""
            case "\x1b[1A":
                row = max(0, row - 1)
    return "\n".join(line.rstrip() for line in lines)


class Keyboard:
    """A person at a terminal: types, and reads what is on the screen."""

    def __init__(self, device: int, program: "Popen[bytes]") -> None:
        self.program = program
        self.screen = ""
        self._device = device
        self._read_to = 0

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._device, text.encode())

    def until(self, text: str, seconds: float = 60) -> str:
        """Read on until this is shown; return what came up to it."""
        deadline = time.monotonic() + seconds
        while text not in self.screen[self._read_to :]:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.screen[self._read_to :]!r}"
            self.screen += self._read()
        end = self.screen.index(text, self._read_to) + len(text)
        output, self._read_to = self.screen[self._read_to : end], end
        return output

    def _read(self) -> str:
        if not select.select([self._device], [], [], 1)[0]:
            return ""
        try:
            chunk = os.read(self._device, 65536)
        except OSError:
            # The program has ended and its side of the terminal is closed.
            raise AssertionError(f"it ended after {self.screen!r}") from None
        if b"\x1b[6n" in chunk:
            # The terminal is asked where its cursor is.
            self.type("\x1b[1;1R")
        return chunk.decode(errors="replace")


@contextmanager
def at_keyboard(
    shell: Shell, *arguments: str, columns: int = 120, settings: Mapping[str, str] | None = None
) -> Iterator[Keyboard]:
    """Start a command of ours at a terminal of its own."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    program = Popen(
        [*(get_command() if shell.is_warm else (PARLEY,)), *arguments],
        cwd=shell.folder,
        env=shell.environment(**(settings or {})),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Keyboard(ours, program)
    finally:
        # Its Postgres ends with it.
        program.terminate()
        program.wait(PATIENCE)
        os.close(ours)
