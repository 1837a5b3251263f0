"""Limits which files a process may reach, by Landlock: Linux 5.13 or newer."""

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from shared.sandbox.syscalls import read_machine

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
MAKE_DEVICES = 1 << 6 | 1 << 9 | 1 << 11
FIRST_RIGHTS = (1 << 13) - 1
# What a rule about a file, not a folder, may say.
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
# The rights that later versions of the interface brought.
NEWER_RIGHTS = {2: REFER, 3: TRUNCATE, 5: IOCTL_DEVICE}
NETWORK_SINCE, ALL_NETWORK = 4, 0b11
SCOPES_SINCE, ALL_SCOPES = 6, 0b11
CREATE_VERSION, PATH_BENEATH = 1, 1

READ = READ_FILE | READ_DIR
RUN = READ | EXECUTE
# Everything but commands, devices and sockets.
CHANGE = (FIRST_RIGHTS & ~EXECUTE & ~MAKE_DEVICES) | REFER | TRUNCATE
USE_DEVICE = READ_FILE | WRITE_FILE


def find_version() -> int:
    """Return the version of Landlock's interface, 0 when the system has none."""
    try:
        return _call("landlock_create_ruleset", (None, 0, CREATE_VERSION))
    except OSError:
        return 0


class Ruleset:
    """Rights by path. Paths are opened when they are named, so that they need no right to be found later."""

    def __init__(self, rights: Mapping[int, Iterable[Path]]) -> None:
        """Grant rights, such as `READ`, beneath paths; those that do not exist are left out. Raises `OSError`."""
        version = find_version()
        if version < 1:
            raise OSError("Landlock is missing")
        handled = FIRST_RIGHTS | sum(right for since, right in NEWER_RIGHTS.items() if since <= version)
        network = ALL_NETWORK if version >= NETWORK_SINCE else 0
        scopes = ALL_SCOPES if version >= SCOPES_SINCE else 0
        attributes = struct.pack("<QQQ", handled, network, scopes)
        # Older kernels know the first fields alone.
        size = 24 if scopes else 16 if network else 8
        self._ruleset = _call("landlock_create_ruleset", (attributes, size, 0))
        for right, paths in rights.items():
            for path in paths:
                try:
                    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                except OSError:
                    continue
                mask = right & handled & (-1 if path.is_dir() else OF_FILES)
                try:
                    _call("landlock_add_rule", (self._ruleset, PATH_BENEATH, struct.pack("<Qi", mask, descriptor), 0))
                finally:
                    os.close(descriptor)

    def restrict(self) -> None:
        """Apply the rules to this process for ever; needs `no_new_privs`. Raises `OSError`."""
        _call("landlock_restrict_self", (self._ruleset, 0))
        os.close(self._ruleset)


def _call(name: str, arguments: tuple[bytes | int | None, ...]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    numbers, _ = read_machine()
    # Sizes and flags are words: left to itself, ctypes would pass the lower half alone.
    c_arguments = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result: int = libc.syscall(numbers[name], *c_arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result
