"""Runs several processes as forks of one that has imported the program, and starts again those that end.

The process that forks has no event loop, no connections and no threads, which a fork would have the traces of and not
the life.
"""

import gc
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from msgspec import Struct

from adapters.cli.console import complain
from adapters.cli.endings import DONE, flush_output, report_error
from adapters.cli.watchdog import EXIT_STATUS
from agent.queue.job import GRACE_SECONDS
from shared.db.embedded.server import stop_servers
from shared.log import get_logger
from shared.processes.prctl import end_with_parent

# A process that ends is started again after a second, then after twice as long each time, up to a minute; one that has
# run for a minute begins anew.
MOST_WAIT_SECONDS, STEADY_SECONDS = 60.0, 60.0
# After a signal a process ends itself within 27 s; what is left then is killed.
END_SECONDS = 28.0
SIGNALLED = 128

REMEDIES = {
    "out of memory": "give the machine more memory, or lower WORKERS or MAX_TURNS",
    "SIGKILL": "if nobody has killed it, look into the system's log",
    f"exit code {EXIT_STATUS}": "the log above says what blocked it",
}
READ_LOG = "the log above says why"

log = get_logger()


class Child(Struct, frozen=True):
    """What a forked process knows of itself: the `number` of the worker in it, of `count`, from 1."""

    number: int
    count: int
    supervisor: int
    is_first_start: bool
    ready_file: int

    def announce_ready(self) -> None:
        """Tell the supervisor that this process does its work."""
        os.write(self.ready_file, b"1")


Program = Callable[[Child], None]


class _Place(Struct):
    # A number, and the process that has it just now.
    number: int
    program: Program
    pid: int | None = None
    # The end of a pipe that has a byte as soon as the process is ready.
    ready_file: int | None = None
    started_at: float = 0.0
    starts: int = 0
    # When it is started again, and how often in a row it did not run for long.
    start_at: float = 0.0
    failures: int = 0
    oom_kills: int = 0


class Supervisor:
    """Runs each program in a process of its own; the others begin as soon as the first one is ready."""

    def __init__(
        self, programs: Sequence[Program], *, on_ready: Callable[[], None], steady_seconds: float = STEADY_SECONDS
    ) -> None:
        """Run these programs; `on_ready` is called in this process when the first one is ready for the first time."""
        self._processes = [_Place(number, program) for number, program in enumerate(programs, 1)]
        self._on_ready, self._steady_seconds = on_ready, steady_seconds
        self._is_ready = self._is_stopping = False
        self._stop_at = float("inf")
        self._code = DONE

    def run(self) -> int:
        """Run until a signal; return the exit code.

        The first SIGTERM or SIGINT asks all processes to end, a second one ends them at once. When the first process
        ends before it was ever ready, its exit code is returned.
        """
        # What is there now is shared with the forks as long as nobody writes to it, as the collector would.
        gc.collect()
        gc.freeze()
        with _woken_by_signals(self._stop) as wake:
            while not self._is_stopping:
                self._start_due()
                self._wait(wake)
                self._reap()
            if self._stop_at < float("inf"):
                complain(f"stopping; running answers have {GRACE_SECONDS:.0f} s")
            while self._list_running():
                if monotonic() >= self._stop_at:
                    self._kill(signal.SIGKILL)
                    self._stop_at = float("inf")
                self._wait(wake)
                self._reap()
        flush_output()
        return self._code

    def _list_running(self) -> list[_Place]:
        return [process for process in self._processes if process.pid is not None]

    def _start_due(self) -> None:
        for process in self._processes if self._is_ready else self._processes[:1]:
            if process.pid is None and monotonic() >= process.start_at:
                self._try_start(process)

    def _try_start(self, process: _Place) -> None:
        try:
            self._start(process)
        except OSError as error:
            if not self._is_ready:
                raise
            # For now there is no process, file or memory left: no reason to end those that run.
            seconds = self._postpone(process)
            remedy = "allow more processes or files, or lower WORKERS"
            log.error(
                "worker_not_started", worker=process.number, cause=str(error), remedy=remedy, restart_seconds=seconds
            )

    def _start(self, process: _Place) -> None:
        if threading.active_count() > 1:
            raise RuntimeError("a process with threads is no process to fork")
        process.started_at, process.oom_kills = monotonic(), _count_oom_kills()
        process.starts += 1
        read_end, write_end = os.pipe()
        flush_output()
        supervisor = os.getpid()
        # A signal comes before the fork, which is not made then, or when this process knows the fork and can tell it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD))
        try:
            pid = None if self._is_stopping else os.fork()
        except OSError:
            os.close(read_end)
            os.close(write_end)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            raise
        if pid == 0:
            os.close(read_end)
            for other in self._processes:
                if other.ready_file is not None:
                    os.close(other.ready_file)
            child = Child(
                number=process.number,
                count=len(self._processes),
                supervisor=supervisor,
                is_first_start=process.starts == 1,
                ready_file=write_end,
            )
            _become(child, process.program, before)
        process.pid, process.ready_file = pid, read_end
        os.close(write_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _wait(self, wake: int) -> None:
        """Wait for a signal, the end of a process, a process that is ready, or the time to start one."""
        waits = [process.start_at for process in self._processes if process.pid is None and self._is_ready]
        until = min([self._stop_at] if self._is_stopping else waits, default=float("inf"))
        timeout = None if until == float("inf") else max(0.0, until - monotonic())
        files = {process.ready_file: process for process in self._processes if process.ready_file is not None}
        readable = select.select([wake, *files], [], [], timeout)[0]
        for file in readable:
            if (process := files.get(file)) is None:
                os.read(wake, 4096)
                continue
            is_ready = bool(os.read(file, 1))
            os.close(file)
            process.ready_file = None
            if is_ready and not self._is_ready and not self._is_stopping:
                self._is_ready = True
                self._on_ready()

    def _reap(self) -> None:
        # Also those that are not ours: as the first process of a container this one inherits orphans.
        with suppress(ChildProcessError):
            while (result := os.waitpid(-1, os.WNOHANG))[0]:
                process = next((process for process in self._processes if process.pid == result[0]), None)
                if process is not None:
                    self._note_end(process, os.waitstatus_to_exitcode(result[1]))

    def _note_end(self, process: _Place, code: int) -> None:
        pid, process.pid = process.pid, None
        if self._is_stopping:
            # One that has just begun has no handler yet, and ends with the signal that it was sent.
            self._code = self._code or (DONE if code == -signal.SIGTERM else _to_exit_code(code))
            return
        if not self._is_ready:
            # It has said why, and others would say the same.
            self._is_stopping, self._code = True, _to_exit_code(code)
            return
        seconds = self._postpone(process)
        cause = _describe(code, has_oom_kills=_count_oom_kills() > process.oom_kills)
        remedy = REMEDIES.get(cause, READ_LOG)
        log.error("worker_ended", worker=process.number, pid=pid, cause=cause, remedy=remedy, restart_seconds=seconds)

    def _postpone(self, process: _Place) -> float:
        """Set when the process is started again, and return in how many seconds."""
        now = monotonic()
        process.failures = 0 if now - process.started_at >= self._steady_seconds else process.failures
        seconds = min(2.0**process.failures, MOST_WAIT_SECONDS)
        process.failures, process.start_at = process.failures + 1, now + seconds
        return seconds

    def _stop(self, number: int) -> None:
        # In the handler of a signal: whatever this process does just now, the others begin to stop.
        if not self._is_stopping:
            self._is_stopping, self._stop_at = True, monotonic() + END_SECONDS
            # Who asks it to begin again while it stops does not end it at once.
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
            self._kill(signal.SIGTERM)
        else:
            self._code = SIGNALLED + number
            self._kill(signal.SIGKILL)

    def _kill(self, number: signal.Signals) -> None:
        for process in self._list_running():
            with suppress(ProcessLookupError):
                os.kill(process.pid or 0, number)


@contextmanager
def _woken_by_signals(stop: Callable[[int], None]) -> Iterator[int]:
    """Yield a file that becomes readable with each signal; SIGTERM and SIGINT are passed on to `stop`."""
    wake, waking = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: stop(number))
    # The default leaves the file as it is.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield wake
    finally:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.close(wake)
        os.close(waking)


def _become(child: Child, program: Program, mask: set[signal.Signals | int]) -> None:
    """Turn this fork into the process of a program, and end it with the program."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        # A service manager may send it to all processes, and the supervisor tells this one.
        signal.signal(signal.SIGUSR1, lambda *_: None)
        # A terminal sends Ctrl+C to all processes, and the supervisor tells this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if sys.platform == "linux":
            end_with_parent(child.supervisor)
        program(child)
        code = DONE
    finally:
        if (error := sys.exc_info()[1]) is not None:
            code = report_error(error)
        stop_servers()
        flush_output()
        # The end of the interpreter would run what the supervisor has registered for its own.
        os._exit(code)


def _to_exit_code(code: int) -> int:
    return code if code >= 0 else SIGNALLED - code


def _describe(code: int, *, has_oom_kills: bool) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # most of those of real time have none
        name = f"signal {-code}"
    return "out of memory" if name == "SIGKILL" and has_oom_kills else name


def _count_oom_kills() -> int:
    """Return how many processes of the machine the system has ended for lack of memory; 0 where it doesn't tell."""
    with suppress(OSError):
        lines = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return next((int(count) for name, count in lines if name == "oom_kill"), 0)
    return 0
