"""A real PgBouncer before a database, as Debian packages it."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from shared.db.database import Address

# What recipes let it ignore, because it refuses a client that names a parameter it does not know.
IGNORED = "extra_float_digits,options,role,jit,plan_cache_mode,idle_in_transaction_session_timeout,row_security"


@asynccontextmanager
async def pooled(address: Address, mode: str = "session", **settings: object) -> AsyncIterator[Address]:
    """Run PgBouncer before this database for the block, in this mode, and yield the address through it."""
    url = address.url
    port = _find_port()
    # The folder of a socket belongs to who may connect there.
    folder = str(url.query.get("host", ""))
    target = f"host={folder or url.host} port={url.port or 5432} dbname={url.database} user={url.username}"
    target += f" password='{url.password}'" if url.password else ""
    own = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": mode,
        "default_pool_size": 60,
        "ignore_startup_parameters": IGNORED,
        "server_login_retry": 1,
    }
    lines = [f"{name} = {value}" for name, value in (own | settings).items()]
    configuration = _write(["[databases]", f"* = {target}", "[pgbouncer]", *lines])
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") or "pgbouncer"
    # It does not run as root.
    user = ["-u", _find_user(folder)] if os.getuid() == 0 else []
    process = await asyncio.create_subprocess_exec(program, *user, configuration, stderr=subprocess.DEVNULL)
    try:
        await _until_open(port)
        yield Address(url.set(host="127.0.0.1", port=port).difference_update_query(["host"]), is_embedded=False)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        shutil.rmtree(configuration.parent)


@asynccontextmanager
async def shared(address: Address, mode: str = "transaction", **settings: object) -> AsyncIterator[Address]:
    """Run PgBouncer in transaction mode before this database, and yield both addresses as one."""
    async with pooled(address, mode, **settings) as through_pooler:
        yield replace(address, pooler=through_pooler.url)


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
