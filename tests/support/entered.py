"""Records which of our files a piece of work enters, by calling their functions."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from agent.live.announcer import TurnReaders
from agent.queue.worker import Worker
from tests.support.source_tree import ROOT

FOLLOWED = tuple(f"{ROOT}/{package}/" for package in ("adapters", "agent", "modules", "shared"))
# What makes memories of a turn runs after it, and may run beside the next one.
BEHIND = f"{ROOT}/agent/memory/"
# These run when a class or a module is created, or within another function; a reader does not open a file for them.
NOT_ENTERED = frozenset({"<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"})


@contextmanager
def files_entered() -> Iterator[dict[str, set[str]]]:
    """Collect the files that the block enters, tests and libraries left out, each with the functions that it calls."""
    entered: dict[str, set[str]] = {}

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        path = code.co_filename
        if event != "call" or code.co_name in NOT_ENTERED or path.startswith(BEHIND):
            return
        if path.startswith(FOLLOWED) and not is_periodic() and not is_note(frame):
            entered.setdefault(path.removeprefix(f"{ROOT}/"), set()).add(code.co_qualname)

    sys.setprofile(profile)
    try:
        yield entered
    finally:
        sys.setprofile(None)


def is_periodic() -> bool:
    """Tell whether a periodic task of the worker runs: on a slow machine each runs beside every message."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and getattr(task.get_coro(), "cr_code", None) is Worker._repeat.__code__


def is_note(frame: FrameType) -> bool:
    """Tell whether a notification for readers in other processes is read: it comes at some time, also here."""
    callers = {frame.f_code, frame.f_back.f_code if frame.f_back is not None else None}
    return TurnReaders._on_turn_note.__code__ in callers


def in_each(rounds: list[dict[str, set[str]]]) -> dict[str, set[str]]:
    """Return what every round entered: that leaves out occasional work, as the opening of connections is."""
    first, *others = rounds
    return {path: names for path, names in first.items() if all(path in other for other in others)}


def to_report(entered: dict[str, set[str]]) -> str:
    """Return a line for each file, with its functions."""
    lines = [f"{path}: {', '.join(sorted(names))}" for path, names in sorted(entered.items())]
    return "\n".join([f"{len(lines)} files in {len({line.rpartition('/')[0] for line in lines})} packages", *lines])
