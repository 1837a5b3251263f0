"""How a running `parley run` begins again with new settings: SIGUSR1, which `parley setup` sends at its end.

Not SIGHUP, which a terminal sends when it is closed. The process stays the same one for a service manager.
"""

import fcntl
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from adapters.cli.console import complain
from adapters.cli.endings import flush_output
from shared.errors import ConfigurationError
from shared.settings import find_env_file, using_environment

# Locked by the running program; it holds the program's number and the settings' file.
FILE = "run.pid"
# What a second signal ends at once does not begin again.
AT_ONCE = frozenset({128 + signal.SIGINT, 128 + signal.SIGTERM})


class Restart:
    """Whether this program is to begin again when it has ended; `environment` is what it was started with."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._is_wanted = False
        self._process = os.getpid()
        # By default the signal would kill a program that has just begun, and reads its settings anyway.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    @contextmanager
    def offered(self, home: Path) -> Iterator[None]:
        """During the block, others find this program by its home, and SIGUSR1 ends it in good order, to begin again."""
        signal.signal(signal.SIGUSR1, self._want)
        try:
            file = os.open(home / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            # A home that can't be written: then nobody finds it, and the signal works all the same.
            yield
            return
        try:
            # Another one with the same home, on another port, was here before; or the disk is full.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.truncate(file, 0)
                os.write(file, f"{os.getpid()}\n{find_env_file().absolute()}\n".encode())
            yield
        finally:
            os.close(file)

    def begin_again(self, code: int) -> None:
        """Replace this program, which has ended with an exit code, by a new one if that is wanted."""
        # A fork of it ends, and is no program of its own.
        if not self._is_wanted or code in AT_ONCE or os.getpid() != self._process:
            return
        become_run(self._environment)

    def end(self, code: int) -> NoReturn:
        """End this program though some thread of it hangs, and begin again if that is wanted."""
        self.begin_again(code)
        os._exit(code)

    def _want(self, _number: int, _frame: FrameType | None) -> None:
        # Where nothing catches SIGTERM yet, that would kill it: it has just read its settings.
        if self._is_wanted or signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            return
        if (reason := self._find_fault()) is not None:
            complain(f"it goes on with the settings of before: {reason}")
            return
        self._is_wanted = True
        os.kill(os.getpid(), signal.SIGTERM)

    def _find_fault(self) -> str | None:
        """Return what is wrong with the settings of now; None if they can be read."""
        from adapters.cli.opening import read_settings

        try:
            with using_environment(self._environment):
                read_settings()
        except (ConfigurationError, OSError) as error:
            # Also when the folder that it was started in has gone.
            return str(error)
        return None


def become_run(environment: Mapping[str, str]) -> None:
    """Replace this process by a `parley run` that finds this environment and reads `.env` anew."""
    from shared.db.embedded.server import stop_servers

    # Nothing that is registered for the end of this program runs.
    stop_servers()
    flush_output()
    # -P: modules are not looked for beside the program's file.
    command = [sys.executable, "-P", sys.argv[0], "run", "--older-process"]
    os.execve(sys.executable, command, environment)  # noqa: S606  # our own program


def list_parts() -> list[str]:
    """Return the workers and adapters that were started by themselves in this folder, as they were typed."""
    parts = []
    for process in Path("/proc").glob("[0-9]*"):
        # Another person's processes are not ours to read, and any may end meanwhile.
        with suppress(OSError):
            words = (process / "cmdline").read_text("utf-8", "replace").split("\0")[:-1]
            names = [Path(word).name for word in words]
            if "parley" in names[:4] and (process / "cwd").readlink() == Path.cwd():
                typed = words[names.index("parley") + 1 :]
                parts += [" ".join(typed)] if typed[:1] in (["worker"], ["adapter"]) else []
    return sorted(parts)


def find_running(home: Path) -> int | None:
    """Return the process of the `parley run` that has this home and these settings; None if none of ours runs."""
    try:
        file = os.open(home / FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            # Nobody holds it: what it names has ended.
            return None
        pid, _, env_file = os.read(file, 4096).decode().rstrip("\n").partition("\n")
        # The file and the process have to be ours: root must not signal what somebody else has named.
        owners = {os.fstat(file).st_uid, Path(f"/proc/{pid}").stat().st_uid}
        is_ours = pid.isdecimal() and owners == {os.geteuid()} and env_file == str(find_env_file().absolute())
        return int(pid) if is_ours else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
