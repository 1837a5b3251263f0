"""Builds and installs the filter of system calls: what is not listed fails with "operation not permitted"."""

import ctypes
import errno
import os
import struct
from typing import NamedTuple

from shared.sandbox.syscalls import FOR_COMMANDS, NOT_SUPPORTED, WITHOUT_EFFECT, list_allowed, read_machine

LOAD, AND, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
AT_NUMBER, AT_ARCHITECTURE, AT_ARGUMENTS = 0, 4, 16
X32_CALLS = 0x40000000
EVERY_BIT = 0xFFFFFFFF
MODE_FILTER = 1
CLONE_FILES, CLONE_THREAD, NEW_NAMESPACES = 0x00000400, 0x00010000, 0x7E020080
CLOSE_RANGE_CLOEXEC = 4
AF_UNIX, SOCK_STREAM, SOCKET_TYPE = 1, 1, 0xF
# Duplicates, flags and locks. Not F_SETOWN and F_SETSIG, which have signals sent to other processes.
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030)
# Whether reading waits, and whether a started program has the file: FIONBIO, FIONCLEX, FIOCLEX.
IOCTL_COMMANDS = (0x5421, 0x5450, 0x5451)


class Condition(NamedTuple):
    """A half of an argument: `word` 2n is the lower half of argument n; under `mask` it is one of `values`."""

    word: int
    values: tuple[int, ...]
    mask: int = EVERY_BIT

    def to_steps(self) -> list[bytes]:
        """Return the instructions that refuse the call when the argument has none of the values."""
        count = len(self.values)
        return [
            _step(LOAD, AT_ARGUMENTS + 4 * self.word),
            _step(AND, self.mask),
            *(_step(JUMP_IF_EQUAL, value, if_true=count - index) for index, value in enumerate(self.values)),
            _step(RETURN, FAIL | errno.EPERM),
        ]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install_filter(*, may_start_commands: bool, may_execute: bool = False) -> None:
    """Filter this thread's system calls and those of what it starts; raises `OSError`. Nothing lifts it again."""
    numbers, _ = read_machine()
    code = build_filter(may_start_commands=may_start_commands, may_execute=may_execute)
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(numbers["seccomp"], MODE_FILTER, 0, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "seccomp is missing")


def build_filter(*, may_start_commands: bool, may_execute: bool = False) -> bytes:
    """Return the filter as the kernel's instructions of 8 bytes each."""
    numbers, architecture = read_machine()
    steps = [
        _step(LOAD, AT_ARCHITECTURE),
        _step(JUMP_IF_EQUAL, architecture, if_true=1),
        _step(RETURN, KILL),
        _step(LOAD, AT_NUMBER),
        _step(JUMP_IF_AT_LEAST, X32_CALLS, if_false=1),
        _step(RETURN, FAIL | errno.EPERM),
    ]
    more = FOR_COMMANDS if may_start_commands else ("execve",) if may_execute else ()
    names = list_allowed(numbers) + [name for name in more if name in numbers]
    steps += [step for name in names for step in _answer(numbers[name], ALLOW)]
    steps += [step for name in WITHOUT_EFFECT if name in numbers for step in _answer(numbers[name], FAIL)]
    steps += [step for name in NOT_SUPPORTED for step in _answer(numbers[name], FAIL | errno.ENOTSUP)]
    # The C library tries clone3 first, whose arguments a filter can't see, and then clone.
    steps += _answer(numbers["clone3"], FAIL | errno.ENOSYS)
    # Threads have their open files in common: the limit of these is one for each table of them.
    is_thread = Condition(0, (CLONE_THREAD | CLONE_FILES,), CLONE_THREAD | CLONE_FILES)
    in_same_namespaces = Condition(0, (0,), NEW_NAMESPACES)
    conditions_of_calls = {
        "clone": (in_same_namespaces if may_start_commands else is_thread,),
        "close_range": (Condition(4, (0, CLOSE_RANGE_CLOEXEC)),),
        # The limits of this process; a stranger's may belong to the same user.
        "prlimit64": (Condition(0, (0,)),),
        # The whole group, which ends with it.
        "kill": (Condition(0, (0,)),),
        "tgkill": (Condition(0, (os.getpid(),)),),
        "fcntl": (Condition(2, FCNTL_COMMANDS),),
        "ioctl": (Condition(2, IOCTL_COMMANDS),),
        # Two ends within the process, which asyncio wakes itself with. Bytes only: no address, no open files.
        "socketpair": (Condition(0, (AF_UNIX,)), Condition(2, (SOCK_STREAM,), SOCKET_TYPE)),
        "sendto": (Condition(8, (0,)), Condition(9, (0,))),
    }
    for name, conditions in conditions_of_calls.items():
        checks = [step for condition in conditions for step in condition.to_steps()]
        steps += [_step(JUMP_IF_EQUAL, numbers[name], if_false=len(checks) + 1), *checks, _step(RETURN, ALLOW)]
    return b"".join([*steps, _step(RETURN, FAIL | errno.EPERM)])


def _answer(number: int, answer: int) -> list[bytes]:
    return [_step(JUMP_IF_EQUAL, number, if_false=1), _step(RETURN, answer)]


def _step(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
