"""A real PgBouncer before a database, as Debian packages it."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import asyncpg
from msgspec.structs import replace

from shared.db.database import Address

# What recipes let it ignore, because it refuses a client that names a parameter it does not know.
IGNORED = "extra_float_digits,options,role,jit,plan_cache_mode,idle_in_transaction_session_timeout,row_security"


@dataclass(frozen=True)
class Pooler:
    """A running PgBouncer, and the address through it."""

    address: Address
    pid: int
    configuration: Path

    def lead_to(self, address: Address) -> None:
        """Let new sessions be those of another server, as an operator does after a failover."""
        _, _, rest = self.configuration.read_text().split("\n", 2)
        self.configuration.write_text(f"[databases]\n{_to_target(address)}\n{rest}")
        os.kill(self.pid, signal.SIGHUP)


@asynccontextmanager
async def running_pooler(address: Address, mode: str = "session", **settings: object) -> AsyncIterator[Pooler]:
    """Run PgBouncer before this database for the block, in this mode."""
    url, port = address.url, _find_port()
    own = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "admin_users": url.username,
        "pool_mode": mode,
        "default_pool_size": 60,
        "ignore_startup_parameters": IGNORED,
        "server_login_retry": 1,
    }
    lines = [f"{name} = {value}" for name, value in (own | settings).items()]
    configuration = _write(["[databases]", _to_target(address), "[pgbouncer]", *lines])
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") or "pgbouncer"
    # It does not run as root. The folder of a socket belongs to who may connect there.
    user = ["-u", _find_user(str(url.query.get("host", "")))] if os.getuid() == 0 else []
    process = await asyncio.create_subprocess_exec(program, *user, configuration, stderr=subprocess.DEVNULL)
    try:
        await _until_open(port)
        through = Address(url.set(host="127.0.0.1", port=port, query={}), is_embedded=False)
        yield Pooler(through, process.pid, configuration)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        shutil.rmtree(configuration.parent)


@asynccontextmanager
async def pooled(address: Address, mode: str = "session", **settings: object) -> AsyncIterator[Address]:
    """Run PgBouncer before this database for the block, in this mode, and yield the address through it."""
    async with running_pooler(address, mode, **settings) as pooler:
        yield pooler.address


@asynccontextmanager
async def shared(address: Address, mode: str = "transaction", **settings: object) -> AsyncIterator[Address]:
    """Run PgBouncer in transaction mode before this database, and yield both addresses as one."""
    async with pooled(address, mode, **settings) as through_pooler:
        yield replace(address, pooler=through_pooler.url)


async def set_pooler(address: Address, name: str, value: object) -> None:
    """Change a setting of a PgBouncer that runs, as a reload of its configuration does."""
    console = await asyncpg.connect(**address.asyncpg_arguments() | {"database": "pgbouncer"})
    try:
        await console.execute(f"SET {name} = '{value}'")
    finally:
        console.terminate()


def _to_target(address: Address) -> str:
    url = address.url
    host = url.query.get("host", "") or url.host
    target = f"* = host={host} port={url.port or 5432} dbname={url.database} user={url.username}"
    return target + (f" password='{url.password}'" if url.password else "")


def _find_user(folder: str) -> str:
    return Path(folder).owner() if folder else "postgres"


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _write(lines: list[str]) -> Path:
    folder = Path(mkdtemp(prefix="parley-pgbouncer-"))
    # Its own user reads it.
    folder.chmod(0o755)
    configuration = folder / "pgbouncer.ini"
    configuration.write_text("\n".join([*lines, ""]))
    return configuration


async def _until_open(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)
