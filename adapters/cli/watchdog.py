"""A watchdog: logs what blocks the event loop, and ends the process if it stays blocked, so that others take over.

A process that is ended by it leaves its turns behind as one that was killed does.
"""

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from shared.log import get_logger

LOG_AFTER_SECONDS, END_AFTER_SECONDS = 5.0, 30.0
TICKS = 5
EXIT_STATUS = 70
# Processor time is that of all threads, and libraries compute in several at once.
CORES_AT_WORK = 4

log = get_logger()


@contextmanager
def watched(*, log_after: float = LOG_AFTER_SECONDS, end_after: float = END_AFTER_SECONDS) -> Iterator[None]:
    """Watch the running event loop during the block."""
    watchdog = _Watchdog(asyncio.get_running_loop(), log_after, end_after)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()


def end_within(seconds: float, status: int, end: Callable[[int], object] = os._exit) -> None:
    """End the process after so many seconds, whatever hangs then: a silent network, the import of a library."""

    def wait() -> None:
        time.sleep(seconds)
        if status:
            log.error("hanging_process_ended", seconds=seconds)
        sys.stdout.flush()
        end(status)

    threading.Thread(target=wait, name="end", daemon=True).start()


class _Watchdog(threading.Thread):
    """Asks the loop for a sign of life at every tick, and counts the ticks that it does not answer.

    Ticks are counted instead of seconds, because a process that was stopped and continued was not blocked meanwhile.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, log_after: float, end_after: float) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._loop = loop
        self._watched_thread = threading.get_ident()
        self._log_after, self._end_after = log_after, end_after
        self._tick = log_after / TICKS
        self._answer = threading.Event()
        self._answer.set()
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End the watch."""
        self._stopping.set()
        self.join()
        self._set_timers(0, 0)
        faulthandler.unregister(signal.SIGPROF)

    def run(self) -> None:
        """Watch until stopped."""
        faulthandler.register(signal.SIGPROF, file=sys.__stderr__ or sys.stderr, all_threads=True)
        scale = max(1.0, (os.cpu_count() or 1) / CORES_AT_WORK)
        missed = 0
        while True:
            # While something holds the interpreter's lock, such as a regular expression, this thread can't run: then
            # the system writes the stack and ends the process when these have passed in processor time.
            self._set_timers(self._log_after * scale, self._end_after * scale)
            if self._stopping.wait(self._tick):
                return
            missed = 0 if self._answer.is_set() else missed + 1
            if missed == TICKS:
                self._report("event_loop_blocked", self._log_after)
            if missed * self._tick >= self._end_after:
                self._report("blocked_process_ended", self._end_after)
                os._exit(EXIT_STATUS)
            if not missed:
                self._answer.clear()
                with suppress(RuntimeError):
                    # It raises when the loop is closed, which is the end of the process.
                    self._loop.call_soon_threadsafe(self._answer.set)

    def _report(self, event: str, seconds: float) -> None:
        frame = sys._current_frames().get(self._watched_thread)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "unknown"
        # In a thread, because it may be the output for logs that blocks.
        writing = threading.Thread(target=lambda: log.error(event, seconds=seconds, stack=stack), daemon=True)
        writing.start()
        writing.join(timeout=self._tick)

    def _set_timers(self, log_after: float, end_after: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, log_after)
        signal.setitimer(signal.ITIMER_VIRTUAL, end_after)
