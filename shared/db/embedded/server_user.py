"""The system user that the embedded Postgres runs as: Postgres refuses to run as root.

Started by root, it runs as the owner of its folder, at first as `pgserver`. Its group may pass Parley's home,
which belongs to root alone. When that user can't reach the home or the programs, because a folder above belongs to root
alone, the server gets the capability to pass, and no permission of these folders is changed.
"""

import fcntl
import os
import pwd
import shutil
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from msgspec import Struct

from shared.errors import ConfigurationError

NAME = "pgserver"
# Those that let a process pass any folder, by their bits: the first one changes nothing, the second may also write.
CAPABILITIES = {"dac_read_search": 2, "dac_override": 1}


class ServerUser(Struct, frozen=True):
    """Who runs the server; `capability` is given to it in addition."""

    name: str
    uid: int
    gid: int
    is_other: bool
    capability: str | None = None

    def run(self, program: Path, *arguments: str) -> None:
        """Run a program of Postgres as this user; raises `CalledProcessError` with what it has said."""
        prefix: list[str] = []
        if self.capability is not None:
            tool = shutil.which("setpriv")
            if tool is None:
                raise ConfigurationError(f"PARLEY_HOME: {NAME} can't reach it; install setpriv (Debian: util-linux).")
            bounds = [f"--inh-caps=+{self.capability}", f"--ambient-caps=+{self.capability}"]
            prefix = [tool, f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", *bounds, "--"]
        changes_user = self.is_other and self.capability is None
        # The server that `pg_ctl` starts keeps the output open, so that a pipe would never end.
        with TemporaryFile() as output:
            process = subprocess.run(  # noqa: S603  # its own programs
                [*prefix, str(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                user=self.uid if changes_user else None,
                group=self.gid if changes_user else None,
                extra_groups=[] if changes_user else None,
                start_new_session=True,
                check=False,
            )
            output.seek(0)
            printed = output.read().decode(errors="replace")
        if process.returncode != 0:
            raise subprocess.CalledProcessError(process.returncode, program.name, printed)


def find_server_user(folder: Path, programs: Path) -> ServerUser:
    """Return who runs the server with this data folder; raises `ConfigurationError` with the remedy if nobody can."""
    me, owner = os.geteuid(), folder.stat().st_uid if folder.exists() else None
    if me != 0:
        if owner not in (None, me):
            raise ConfigurationError(
                f"PARLEY_HOME: {folder} belongs to {_find_name(owner or 0)}; start Parley as that user, or set "
                "PARLEY_HOME to a folder of yours."
            )
        return ServerUser(_find_name(me), me, os.getegid(), is_other=False)
    or_make = pwd.getpwuid(owner) if owner else _find_or_make()
    user = ServerUser(or_make.pw_name, or_make.pw_uid, or_make.pw_gid, is_other=True)
    home = folder.parent
    if home.stat().st_uid == 0 and not _may_pass(user, home.stat()):
        # Nobody but root and the server's group gets into the home, and the group sees nothing of it but what it knows.
        os.chown(home, -1, user.gid)
        home.chmod(0o710)
    if _can_reach(user, folder) and _can_reach(user, programs / "postgres"):
        return user
    return ServerUser(user.name, user.uid, user.gid, is_other=True, capability=_find_capability(user, folder))


def _find_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise ConfigurationError(
            f"PARLEY_HOME: the embedded Postgres needs a user with a name, and {uid} has none in /etc/passwd; add one, "
            "or set DATABASE_URL to a Postgres of your own."
        ) from None


def _find_or_make() -> pwd.struct_passwd:
    with suppress(KeyError):
        return pwd.getpwnam(NAME)
    make = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", NAME]
    # Of two `useradd` at once the second takes back the user of the first.
    with Path("/etc/passwd").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with suppress(KeyError):
            return pwd.getpwnam(NAME)
        subprocess.run(make, capture_output=True, check=False)  # noqa: S603  # a fixed command
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        raise ConfigurationError(
            f"PARLEY_HOME: Postgres does not run as root, and there is no user {NAME}; run: useradd --system {NAME}."
        ) from None


def _can_reach(user: ServerUser, path: Path) -> bool:
    return all(_may_pass(user, folder.stat()) for folder in path.parents)


def _may_pass(user: ServerUser, status: os.stat_result) -> bool:
    if status.st_uid == user.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == user.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _find_capability(user: ServerUser, folder: Path) -> str:
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    capabilities = next((int(line.split()[1], 16) for line in lines if line.startswith("CapPrm:")), 0)
    for name, bit in CAPABILITIES.items():
        if capabilities >> bit & 1:
            return name
    raise ConfigurationError(
        f"PARLEY_HOME: Postgres does not run as root, and {user.name} can't reach {folder}, or the programs in "
        "Parley's own folder; set PARLEY_HOME to a folder such as /var/lib/parley and install Parley outside of "
        "/root, or start it as an ordinary user."
    )
