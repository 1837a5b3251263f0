"""Stands for a fork of the process that has imported the program: signals go on to it, and neither outlives the other.

Run by its path with `-IS` it imports next to nothing, so that a start costs a hundredth of the program's imports.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

FORWARDED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


@contextmanager
def start_fork(path: str, request: object, streams: Sequence[int]) -> Iterator[tuple[int, socket.socket]]:
    """Ask for a fork that has these streams; return its process id, and who tells its exit code: nothing at a signal.

    It is killed when the block ends first, or this process.
    """
    ours, its = os.pipe()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            try:
                connection.connect(path)
                socket.send_fds(connection, [json.dumps(request).encode()], [*streams, ours])
            finally:
                os.close(ours)
            yield int(connection.recv(20)), connection
    finally:
        os.close(its)


def run_fork(path: str, request: object, streams: Sequence[int], on_start: Callable[[int], None] | None = None) -> int:
    """Run a fork to its end and return its exit code, -9 after a signal; `on_start` gets its process id."""
    with start_fork(path, request, streams) as (pid, connection):
        if on_start is not None:
            on_start(pid)
        code = connection.recv(20)
    return int(code) if code else -signal.SIGKILL


def forward(pid: int) -> None:
    """Send the signals that come from now on, and those that have come before, to the fork."""

    def send(number: int, _frame: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in FORWARDED:
        signal.signal(number, send)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)


def main() -> None:
    """Run a module as a program: the arguments are the path of the forks, the module, and the program's own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    path, module, *arguments = sys.argv[1:]
    folder = os.getcwd()  # noqa: PTH109  # pathlib takes long to import
    request = {"module": module, "arguments": arguments, "environment": dict(os.environ), "folder": folder}
    code = run_fork(path, request, (0, 1, 2), forward)
    if code < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(code)


if __name__ == "__main__":
    main()
