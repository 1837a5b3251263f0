"""The embedded Postgres serves its own user alone, and changes nothing outside its home."""

import asyncio
import contextlib
import os
import pwd
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.embedded.server import (
    LONGEST_SOCKET_PATH,
    SOCKET,
    find_programs,
    find_server,
    keep_running,
    start_postgres,
)
from shared.db.embedded.server_user import find_server_user
from shared.errors import ConfigurationError
from tests.support.connections import connected, run_as_owner
from tests.support.processes import kill_server

NOBODY = 65534
METHODS = "SELECT DISTINCT auth_method FROM pg_hba_file_rules"
CONNECT = """
import os, socket, sys
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    startup = b"user\\0postgres\\0database\\0postgres\\0\\0"
    client.sendall((len(startup) + 8).to_bytes(4, "big") + (196608).to_bytes(4, "big") + startup)
    print(client.recv(1000))
"""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def connect_as_nobody(path: Path) -> str:
    """Return what another user of the machine gets: the server's first answer, or the error."""
    # The script changes its user by itself: another user may not be able to start this Python.
    process = subprocess.run([sys.executable, "-c", CONNECT, str(path)], capture_output=True, text=True, check=False)
    return process.stdout + process.stderr


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A home with a running server, in a folder that its owner alone may enter."""
    with tempfile.TemporaryDirectory(prefix="parley-test-", ignore_cleanup_errors=True) as folder:
        outer = Path(folder)
        (outer / "home").mkdir()
        before = {path: mode_of(path) for path in (outer / "home").parents}
        start_postgres(outer / "home")
        assert {path: mode_of(path) for path in before} == before, "permissions outside the home have changed"
        # Where root runs it as another user, that one's group may pass.
        assert mode_of(outer / "home") == (0o710 if os.geteuid() == 0 else 0o700)
        yield outer / "home"
        find_server(outer / "home").detach()


async def test_the_socket_is_private_and_the_server_asks_who_connects(home: Path) -> None:
    address = Address(start_postgres(home), is_embedded=True)
    async with connected(address) as owner:
        methods = [row[0] for row in await owner.fetch(METHODS)]
        listening = await owner.fetchval("SHOW listen_addresses")

    assert methods == ["peer"]
    assert listening == ""
    assert mode_of(home / "postgres") == 0o700
    assert mode_of(home / "postgres" / SOCKET) == 0o700
    assert (home / "postgres.lock").exists()


async def test_the_program_and_the_migrations_come_in(home: Path) -> None:
    address = Address(start_postgres(home), is_embedded=True)
    await update_tables(address)
    async with connected(address, as_owner=False) as connection:
        assert await connection.fetchval("SELECT current_user") == "parley_app"


async def test_a_server_that_has_ended_is_started_again(home: Path) -> None:
    server = find_server(home)
    keeping = asyncio.create_task(keep_running(home, look_seconds=0.1))
    # Not by pg_ctl, which fails where the next server has begun before it sees the end of this one.
    await asyncio.to_thread(kill_server, home / "postgres")
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(server.is_running):  # noqa: ASYNC110  # another process is watched
            await asyncio.sleep(0.05)
    await run_as_owner(Address(start_postgres(home), is_embedded=True))
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


def test_another_user_of_the_machine_is_refused_even_where_the_folders_are_open(home: Path) -> None:
    # What only root can try: to be somebody else.
    path = home / "postgres" / SOCKET
    is_root = os.geteuid() == 0
    assert not is_root or "PermissionError" in connect_as_nobody(path)

    modes = {path: 0o777, path.parent: 0o755, home: 0o755, home.parent: 0o755}
    before = {entry: mode_of(entry) for entry in modes}
    try:
        for target, mode in modes.items():
            target.chmod(mode)
        output = connect_as_nobody(path)
    finally:
        for location, mode in before.items():
            location.chmod(mode)
    assert ("Peer authentication failed" in output) == is_root, output


def test_a_path_that_is_too_long_for_the_socket_stops_the_start_with_the_remedy(tmp_path: Path) -> None:
    room = LONGEST_SOCKET_PATH - len(str(tmp_path / "x" / "postgres" / SOCKET))
    long = tmp_path / ("x" * (room + 4))

    with pytest.raises(ConfigurationError, match=r"PARLEY_HOME: .* is 3 bytes too long .* set it to a shorter path"):
        start_postgres(long)
    assert not (long / "postgres").exists()


def test_a_link_to_an_empty_folder_elsewhere_is_where_it_is_made() -> None:
    with tempfile.TemporaryDirectory(prefix="parley-test-", ignore_cleanup_errors=True) as folder:
        elsewhere, own = Path(folder) / "disk", Path(folder) / "home"
        elsewhere.mkdir(mode=0o700)
        own.mkdir()
        (own / "postgres").symlink_to(elsewhere)
        start_postgres(own)
        find_server(own).detach()

        assert (elsewhere / "PG_VERSION").exists()
        assert (own / "postgres").is_symlink()


def test_a_server_that_somebody_has_started_open_is_started_anew(tmp_path: Path) -> None:
    folder, programs = tmp_path / "postgres", find_programs()
    assert programs is not None
    user = find_server_user(folder, programs)
    folder.mkdir(mode=0o700)
    if user.is_other:
        os.chown(folder, user.uid, user.gid)
    user.run(programs / "initdb", "--auth=trust", "--no-sync", "-U", "postgres", "-D", str(folder))
    options = ["-l", str(folder / "log"), "-D", str(folder), "-o", f"-h '' -k {folder}"]
    user.run(programs / "pg_ctl", "-w", *options, "start")
    try:
        url = start_postgres(tmp_path)
        address = Address(url, is_embedded=True)

        async def read_methods() -> list[str]:
            async with connected(address) as owner:
                return [row[0] for row in await owner.fetch(METHODS)]

        assert asyncio.run(read_methods()) == ["peer"]
    finally:
        find_server(tmp_path).detach()
    assert not (folder / "postmaster.pid").exists()


def test_a_server_that_was_killed_while_it_was_made_is_made_anew(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from shared.db.embedded.server import start_postgres as start; "
    process = subprocess.Popen([sys.executable, "-c", script + "start(Path(sys.argv[1]))", tmp_path])
    # What a start takes for the mark of a database is among the first files.
    while not (unfinished := list(tmp_path.glob("postgres*/PG_VERSION"))):
        time.sleep(0.001)
    process.kill()
    process.wait()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(unfinished[0].parent).encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)

    start_postgres(tmp_path)

    assert find_server(tmp_path).is_running()
    find_server(tmp_path).detach()
    assert {path.name for path in tmp_path.iterdir()} == {"postgres", "postgres.lock", "postgres.users"}


def test_a_folder_of_somebody_else_is_refused_and_root_serves_it_as_its_owner(tmp_path: Path) -> None:
    programs = find_programs()
    assert programs is not None
    if os.geteuid() == 0:
        os.chown(tmp_path, NOBODY, NOBODY)
        assert find_server_user(tmp_path, programs).uid == NOBODY
    else:
        with pytest.raises(ConfigurationError, match="belongs to root; start Parley as that user"):
            find_server_user(Path("/"), programs)


def test_servers_that_start_at_once_make_one_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        # Only root needs another user.
        assert not find_server_user(tmp_path / "postgres", find_programs() or tmp_path).is_other
        return
    name = f"parley-{uuid4().hex[:8]}"
    script = f"from shared.db.embedded import server_user as it; it.NAME = {name!r}; print(it._find_or_make().pw_uid)"
    try:
        processes = [
            subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(4)
        ]
        uids = {process.communicate()[0].strip() for process in processes}
        assert uids == {str(pwd.getpwnam(name).pw_uid)}
    finally:
        subprocess.run(["userdel", name], check=False)
