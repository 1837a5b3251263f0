"""A primary and its streaming standby: two real servers, which are killed and promoted."""

import asyncio
import os
import shlex
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.embedded.server import find_programs
from shared.db.embedded.server_user import ServerUser, find_server_user
from shared.db.hosts import URL, parse_url
from tests.support.connections import connected
from tests.support.folders import temporary_folder
from tests.support.processes import kill_server

# Their machine does not die: what they lose is what replication does not bring.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "unix_socket_directories": ""}
CAUGHT_UP = "SELECT count(*) = 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn() AND sync_state = $1"
ALONE = "SELECT count(*) = 0 FROM pg_stat_replication"


def find_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@dataclass
class Server:
    """A Postgres in a folder; it trusts whoever reaches its port."""

    folder: Path
    user: ServerUser
    programs: Path
    port: int = field(default_factory=find_port)

    @property
    def address(self) -> Address:
        """Return the address of this server alone."""
        url = URL(username="postgres", host="127.0.0.1", port=self.port, database="postgres")
        return Address(url, is_embedded=False)

    async def run(self, program: str, *arguments: str) -> None:
        """Run a program of Postgres as the user of the server."""
        await asyncio.to_thread(self.user.run, self.programs / program, *arguments)

    async def control(self, action: str, *arguments: str) -> None:
        """Let `pg_ctl` do this, and wait until it is done: `promote`, `reload` or `stop`."""
        await self.run("pg_ctl", "-w", "-D", str(self.folder), *arguments, action)

    async def start(self) -> None:
        """Start it, and return when it takes connections."""
        own = SETTINGS | {"port": str(self.port), "listen_addresses": "127.0.0.1"}
        options = " ".join(f"-c {shlex.quote(f'{name}={value}')}" for name, value in own.items())
        await self.control("start", "-l", f"{self.folder}/log", "-o", options)

    async def follow(self, primary: "Server") -> None:
        """Become a standby of this one, with its data."""
        await self.run("/bin/find", str(self.folder), "-mindepth", "1", "-delete")
        where = f"host=127.0.0.1 port={primary.port} user=postgres"
        options = ("-R", "-c", "fast", "-X", "stream", "--no-sync")
        await self.run("pg_basebackup", "-d", where, "-D", str(self.folder), *options)
        await self.start()

    async def set(self, setting: str) -> None:
        """Change a setting of the running server, a standby too."""
        with (self.folder / "postgresql.auto.conf").open("a") as file:
            file.write(f"{setting}\n")
        await self.control("reload")

    async def kill(self) -> None:
        """Kill it with all its processes, as a machine that is lost."""
        await asyncio.to_thread(kill_server, self.folder)
        (self.folder / "postmaster.pid").unlink()

    async def promote_alone(self) -> None:
        """Start it as a standby of nobody, with what it has, and promote it."""
        await self.run("/usr/bin/touch", str(self.folder / "standby.signal"))
        await self.start()
        await self.control("promote")

    async def end(self) -> None:
        """Stop it at once, if it runs."""
        if (self.folder / "postmaster.pid").exists():
            await self.control("stop", "-m", "immediate")

    async def until(self, question: str, *parameters: object) -> None:
        """Return when the server answers this with yes."""
        async with asyncio.timeout(60), connected(self.address) as owner:
            while not await owner.fetchval(question, *parameters):  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0.02)


@dataclass
class Replicas:
    """A primary with a standby."""

    first: Server
    second: Server

    @property
    def address(self) -> Address:
        """Return an address that names both."""
        hosts = f"127.0.0.1:{self.first.port},127.0.0.1:{self.second.port}"
        return Address(parse_url(f"postgresql://postgres@{hosts}/postgres"), is_embedded=False)

    async def cut(self) -> None:
        """Let the standby get nothing any more."""
        await self.second.set("primary_conninfo = ''")
        await self.first.until(ALONE)

    async def fail_over(self) -> None:
        """Kill the primary and promote the standby."""
        await self.first.kill()
        await self.second.control("promote")


@contextmanager
def server_folder() -> Iterator[Path]:
    """Make a folder for servers, which their user may enter."""
    with temporary_folder("replicas") as folder:
        folder.chmod(0o711)
        yield folder


async def make_server(folder: Path) -> Server:
    """Make a server with all tables, which is stopped, to make replicas of."""
    programs = find_programs()
    assert programs is not None
    server = Server(folder / "template", find_server_user(folder / "template", programs), programs)
    _give(server)
    await server.run(
        "initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", str(server.folder)
    )
    await server.start()
    await update_tables(server.address)
    await server.control("stop")
    return server


@asynccontextmanager
async def replicas(template: Server, *, is_synchronous: bool) -> AsyncIterator[Replicas]:
    """Start a copy of the template and a standby of it for the block."""
    async with AsyncExitStack() as closing:
        folder = closing.enter_context(server_folder())
        first, second = (Server(folder / name, template.user, template.programs) for name in ("first", "second"))
        for server in (first, second):
            _give(server)
            closing.push_async_callback(server.end)
        await template.run("/bin/cp", "-a", f"{template.folder}/.", str(first.folder))
        await first.start()
        await second.follow(first)
        if is_synchronous:
            await first.set("synchronous_standby_names = '*'")
        await first.until(CAUGHT_UP, "sync" if is_synchronous else "async")
        yield Replicas(first, second)


def _give(server: Server) -> None:
    server.folder.mkdir(mode=0o700)
    if server.user.is_other:
        os.chown(server.folder, server.user.uid, server.user.gid)
