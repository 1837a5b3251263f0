"""Gives up the rights of the process that calls it, before it runs what others have written."""

import ctypes
import os
import resource
import signal
import struct
import sys
import sysconfig
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from shared.processes.prctl import end_with_parent, prctl
from shared.sandbox.job import NO_CONFINEMENT, Limits, Rights
from shared.sandbox.landlock import CHANGE, READ, RUN, USE_DEVICE, Ruleset
from shared.sandbox.seccomp import install_filter
from shared.sandbox.syscalls import read_machine

PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS = 8, 38
CAPABILITIES_VERSION = 0x20080522
# May go through folders that are closed to others, as far as Landlock lets it: the interpreter may stand in one.
DAC_READ_SEARCH = 1 << 2
# A user of its own for each run: numbers that no account has and that a user namespace's first 65,536 hold.
FIRST_USER, USERS = 60_000, 5_000
LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/usr/share/fonts", "/etc/ld.so.cache")
# What the system starts a binary with.
LOADERS = ("lib/ld-*", "lib64/ld-*")
COMMANDS = ("/usr/bin", "/bin", "/usr/lib", "/usr/lib64", "/lib", "/lib64")
SOURCES = ("/dev/zero", "/dev/random", "/dev/urandom", "/etc/localtime", "/etc/mime.types")
NICENESS = 5


def confine(rights: Rights, descriptors: Collection[int] = ()) -> None:
    """Enter all layers, or raise `OSError` with the one that is missing. There is no way back.

    Nothing stays open but the standard streams and these descriptors.
    """
    # The loop that starts this process closes nothing: what others left open to Parley would be open to the program.
    opened = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    for descriptor in opened - {0, 1, 2, *descriptors}:
        # That of the list itself.
        with suppress(OSError):
            os.close(descriptor)
    # The rules, and the libraries that they take, are made ready while everything can still be read.
    own = [] if rights.folder is None else [rights.folder]
    loaders = (loader for pattern in LOADERS for loader in Path("/").glob(pattern))
    # Not the whole of its folder, in which others may lie.
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    interpreter = (*(Path(sysconfig.get_path(name)) for name in names), Path(sys.base_prefix) / "lib")
    ruleset = Ruleset(
        {
            RUN: map(Path, COMMANDS if rights.starts_commands else ())
            if rights.becomes is None
            else (rights.becomes, *loaders),
            READ: [
                *map(Path, (*LIBRARIES, *SOURCES)),
                *(interpreter if rights.becomes is None else ()),
                *rights.readable,
                *own,
            ],
            # Not a job's folder itself: Parley opens what is in it by name after the run.
            CHANGE: rights.changeable,
            USE_DEVICE: [Path("/dev/null")],
        }
    )
    os.nice(NICENESS)
    _set_limits(rights.limits)
    if os.geteuid() == 0:
        _become_nobody(rights)
    # After the change of users, which would undo it.
    if rights.starts_commands:
        signal.signal(signal.SIGTERM, _end_group)
    end_with_parent(rights.parent, signal.SIGTERM if rights.starts_commands else signal.SIGKILL)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    ruleset.restrict()
    install_filter(may_start_commands=rights.starts_commands, may_execute=rights.becomes is not None)


def run_program() -> None:
    """Run the program that the arguments name, confined; never returns to a process with rights.

    They are its rights, a descriptor to tell that the sandbox was entered, the program's file and its own arguments.
    """
    rights, entering = Rights.from_json(sys.argv[1]), int(sys.argv[2])
    path = Path(sys.argv[3])
    # Parley's own code is not among what it may read.
    code = compile(path.read_bytes(), str(path), "exec")
    del sys.argv[:3], sys.path[0]
    _confine_or_exit(rights, (entering,))
    os.write(entering, b"1")
    os.close(entering)
    exec(code, {"__name__": "__main__", "__file__": str(path)})  # noqa: S102  # one of Parley's own programs


def become_binary() -> None:
    """Become the binary that the first argument, its rights, names, confined; the other arguments are the binary's."""
    rights = Rights.from_json(sys.argv[1])
    _confine_or_exit(rights)
    os.execve(str(rights.becomes), [str(rights.becomes), *sys.argv[2:]], {})  # noqa: S606  # confined


def _confine_or_exit(rights: Rights, descriptors: Collection[int] = ()) -> None:
    try:
        confine(rights, descriptors)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
        os._exit(NO_CONFINEMENT)


def _end_group(*_: object) -> None:
    # The system tells this process alone that Parley has ended; what it has started ends with it.
    os.kill(0, signal.SIGKILL)


def _set_limits(limits: Limits) -> None:
    # Except for root, the limit counts all threads of the user, those of Parley and its Postgres included.
    tasks = limits.tasks
    for process in Path("/proc").glob("[0-9]*") if os.geteuid() != 0 else ():
        with suppress(OSError):
            if process.stat().st_uid == os.getuid():
                tasks += sum(1 for _ in (process / "task").iterdir())
    for kind, value in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, tasks),
    ):
        most = resource.getrlimit(kind)[1]
        limit = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (limit, limit))
    # A program may ignore the first signal, but not the one a second later.
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + 1))


def _become_nobody(rights: Rights) -> None:
    # The system does not limit the number of root's processes, and root could change what others run.
    user = FIRST_USER + os.getpid() % USERS
    if rights.folder is not None:
        # Through the job's folder, but not into it: its names are Parley's.
        os.chown(rights.folder, -1, user)
        rights.folder.chmod(0o710)
    for folder in rights.changeable:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)
    prctl(PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    numbers, _ = read_machine()
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("<Ii", CAPABILITIES_VERSION, 0)
    # Effective, permitted, inheritable: the lower 32 capabilities, then the higher ones.
    capabilities = struct.pack("<6I", DAC_READ_SEARCH, DAC_READ_SEARCH, 0, 0, 0, 0)
    if libc.syscall(numbers["capset"], header, capabilities) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities can't be dropped")
