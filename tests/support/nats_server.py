"""A real NATS server, as Debian packages it, and a stranger who reaches it."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from tests.support.loopback import free_port


@dataclass
class NatsServer:
    """A server on a port of its own, with these lines of configuration."""

    configuration: str
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Return its address, without a login."""
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it, and return when it takes connections."""
        program = shutil.which("nats-server", path=f"{os.environ['PATH']}:/usr/sbin") or "nats-server"
        with TemporaryDirectory(prefix="parley-nats-") as folder:
            file = write_configuration(Path(folder), f"listen: 127.0.0.1:{self.port}\n{self.configuration}\n")
            self.process = await asyncio.create_subprocess_exec(program, "-c", file, stderr=asyncio.subprocess.DEVNULL)
            async with asyncio.timeout(30):
                while not await self._is_open():  # noqa: ASYNC110  # it tells nobody
                    await asyncio.sleep(0.02)

    async def kill(self) -> None:
        """Kill it, as a machine that is lost."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Let it take and say nothing during the block, as a machine that is overloaded."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        # Its threads stop when each of them gets to know: until then it may still take something.
        while not Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].startswith(" T"):
            time.sleep(0.001)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    async def _is_open(self) -> bool:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            return True
        return False


def write_configuration(folder: Path, text: str) -> Path:
    file = folder / "nats.conf"
    file.write_text(text)
    return file


@asynccontextmanager
async def running_nats(configuration: str = "") -> AsyncIterator[NatsServer]:
    """Run a server for the block."""
    server = NatsServer(configuration)
    try:
        await server.start()
        yield server
    finally:
        await server.kill()


@dataclass
class Stranger:
    """Somebody who hears all that goes over a server, and may send."""

    client: Client
    messages: list[Msg] = field(default_factory=list)

    async def send(self, subject: str, *payloads: bytes) -> None:
        """Send messages; the server has them when it returns."""
        for payload in payloads:
            await self.client.publish(subject, payload)
        await self.client.flush()


@asynccontextmanager
async def strange(server: NatsServer) -> AsyncIterator[Stranger]:
    """Be a stranger at the server for the block."""
    client = Client()
    await client.connect(server.url, allow_reconnect=False)
    stranger = Stranger(client)

    async def hear(message: Msg) -> None:
        stranger.messages.append(message)

    await client.subscribe(">", cb=hear)
    await client.flush()
    try:
        yield stranger
    finally:
        with suppress(Error, OSError):
            await client.close()
