"""What Linux does for a process that asks for it by `prctl`."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def prctl(option: int, value: int) -> None:
    """Set an option of this process; raises `OSError` where the system refuses it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), *map(ctypes.c_ulong, (0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


def end_with_parent(parent: int, signal_number: int = signal.SIGKILL) -> None:
    """Have the system send this signal when the process `parent`, which has started this one, ends; also by kill -9."""
    prctl(PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        sys.exit("the process that started this one has ended")
