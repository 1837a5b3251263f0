"""Carries notes by a NATS server, where `BUS_URL` names one: those of turns and their text, and those of jobs.

It is never the truth. What it can't carry now goes by NOTIFY, which every process hears as well; what it has lost,
readers and workers find when they look at the tables.

Whoever reaches the server can hear and send. So each message is encrypted with `SECRET_KEY` for its subject, and what
is too large or not of ours is dropped unread. Texts in it are encrypted once more, for the readers of their turn.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error, SlowConsumerError

from agent.live.channels import JOBS, TURNS
from agent.live.notifier import DatabaseBus, Hearer, Note
from shared.credentials.vault import Undecryptable, Vault
from shared.db.connections import PROGRAM_NAME
from shared.db.database import Address
from shared.db.single import SessionSource
from shared.log import get_logger
from shared.settings import Settings
from shared.tasks import is_cancelled, run_with_timeout

log = get_logger()
# What it says, we say.
logging.getLogger("nats").setLevel(logging.CRITICAL)

PURPOSE: Final = b"parley bus"
ANY_WORKER = ""
# Of what is sent; encrypting takes a third more. Servers take a megabyte by default.
MOST_CHARS, MOST_BYTES = 100_000, 250_000
# What waits in this process for its turn to be read; what comes then is dropped.
WAITING_MESSAGES, WAITING_BYTES = 1024, 16 * 1024 * 1024
CONNECT_SECONDS, CLOSE_SECONDS = 5.0, 2.0
# The server answers within a millisecond; one that is silent for so long is given up.
ANSWER_SECONDS, PING_SECONDS = 1.0, 2
# Others may come back a moment later; before, what was sent by NOTIFY has arrived.
SETTLE_SECONDS = 1.0
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 15.0
NO_TLS = "the server speaks no TLS, which its address asks for"
FAILURES = (Error, OSError, TimeoutError)

Callback = Callable[[], Awaitable[None]]


def find_prefix(address: Address, secret_keys: Sequence[str]) -> str:
    """Return how the subjects of this installation begin: others on the server have another database, or other keys."""
    history = address.servers.witness.history
    names = [history.system if history else "", address.url.database, secret_keys[0]]
    return f"parley.{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:20]}"


class Encryption(ssl.SSLContext):
    """Checks certificates, and knows whether it was used: the library speaks plainly where the server wants that."""

    is_used = False

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Begin to encrypt a connection."""
        self.is_used = True
        return super().wrap_bio(*arguments, **options)


def list_logins(servers: Sequence[str], check: Callable[[], None]) -> dict[str, Any]:
    """Return the login in the first address that has one, as options for the client, which are told after the check."""
    for server in map(urlsplit, servers):
        names = ("token",) if server.password is None else ("user", "password")
        values = [unquote(value) for value in (server.username, server.password) if value is not None]
        if values:
            return {name: partial(tell, value, check) for name, value in zip(names, values, strict=True)}
    return {}


def tell(value: str, check: Callable[[], None]) -> str:
    """Return the value, if the check does not raise."""
    check()
    return value


async def connect(settings: Settings, closed_cb: Callback | None = None, on_drop: Callback | None = None) -> Client:
    """Return a client that is connected, and that does not come back by itself; raises one of `FAILURES`.

    `on_drop` is called when messages came faster than they were read.
    """
    client, errors, servers = Client(), list[Exception](), settings.list_bus_servers()
    encryption = Encryption(ssl.PROTOCOL_TLS_CLIENT)
    if settings.bus_ca_file is None:
        encryption.load_default_certs()
    else:
        encryption.load_verify_locations(settings.bus_ca_file)

    def check() -> None:
        if any(server.startswith("tls:") for server in servers) and not encryption.is_used:
            raise ConnectionError(NO_TLS)

    async def on_error(error: Exception) -> None:
        if isinstance(error, SlowConsumerError) and on_drop is not None:
            await on_drop()
        elif not client.is_connected:
            errors.append(error)

    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.connect(
                [f"{server.scheme}://{server.netloc.rpartition('@')[2]}" for server in map(urlsplit, servers)],
                error_cb=on_error,
                closed_cb=closed_cb,
                name=PROGRAM_NAME,
                tls=encryption,
                no_echo=True,
                ping_interval=PING_SECONDS,
                # Otherwise it waits for a server that reads nothing when much is on its way, and can't be cancelled.
                pending_size=0,
                allow_reconnect=False,
                # Each server is tried twice, at once: when to try again is ours to say.
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                **list_logins(servers, check),
            )
            check()
        if is_cancelled():
            raise asyncio.CancelledError
    except (*FAILURES, asyncio.CancelledError) as error:
        await leave(client)
        # Python 3.11's `wait_for`, with which the library connects, now and then takes a cancellation for itself.
        if isinstance(error, asyncio.CancelledError) or is_cancelled():
            raise asyncio.CancelledError from None
        raise (errors or [error])[0] from None
    return client


def describe(client: Client) -> str:
    """Return what the server is, for people."""
    version = client.connected_server_version
    return f"NATS {version.major}.{version.minor}.{version.patch}"


class NatsBus:
    """Keeps a connection to the server, and reads what others send for this installation."""

    def __init__(self, database: SessionSource, settings: Settings, secret_keys: Sequence[str]) -> None:
        self._address, self._settings, self._secret_keys = database.address, settings, secret_keys
        self._by_database, self._vault = DatabaseBus(database), Vault(secret_keys, PURPOSE)
        # While notes go by the server.
        self._client: Client | None = None
        self._lost = asyncio.Event()
        self._prefix = ""
        self._has_worker = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Return whether notes go by the server now."""
        return self._client is not None

    async def start(self, hearer: Hearer) -> None:
        """Connect, as soon as the server answers: nobody waits for it."""
        await self._by_database.start(hearer)
        self._task = asyncio.create_task(self._keep(hearer), name="bus")

    def join(self) -> None:
        """Let this process's worker be woken; of a job, the server tells one of those that joined."""
        self._has_worker.set()

    async def carry(self, notes: Sequence[Note]) -> None:
        """Send notes in their order, by NOTIFY those that the server does not take now."""
        if self._client is not None:
            try:
                await run_with_timeout(ANSWER_SECONDS, self._publish(self._client, notes))
            except FAILURES:
                # Also what has arrived is sent again: whoever has it knows by the numbers.
                self._client = None
                self._lost.set()
            else:
                return
        await self._by_database.carry(notes)

    async def close(self) -> None:
        """Leave the server."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _publish(self, client: Client, notes: Sequence[Note]) -> None:
        for number, batch in enumerate(split([note for channel, note in notes if channel == TURNS])):
            if number:
                await client.flush()
            await self._publish_one(client, TURNS, batch)
        for _ in [channel for channel, _ in notes if channel == JOBS]:
            await self._publish_one(client, JOBS, [ANY_WORKER])
        # The server has them when it answers: one message of notes is on its way at most.
        await client.flush()

    async def _publish_one(self, client: Client, channel: str, notes: Sequence[str]) -> None:
        subject = f"{self._prefix}.{channel}"
        sealed = self._vault.encrypt(subject, json.dumps(notes, ensure_ascii=False))
        await client.publish(subject, sealed.encode())

    async def _keep(self, hearer: Hearer) -> None:
        wait, is_told = FIRST_WAIT_SECONDS, False
        while True:
            self._lost, cause = asyncio.Event(), ""
            try:
                async with self._connected(hearer, self._lost) as client:
                    log.info("bus_connected", server=describe(client), subjects=f"{self._prefix}.>")
                    wait, is_told = FIRST_WAIT_SECONDS, False
                    await self._use(client, hearer, self._lost)
                    cause = str(client.last_error or "")
            except FAILURES as error:
                cause = str(error) or type(error).__name__
            if not is_told:
                log.warning("bus_away", cause=cause or "the connection was lost")
            is_told = True
            await asyncio.sleep(wait * random.uniform(0.5, 1))  # noqa: S311  # so that not all come back at once
            wait = min(LONGEST_WAIT_SECONDS, wait * 2)

    @contextlib.asynccontextmanager
    async def _connected(self, hearer: Hearer, lost: asyncio.Event) -> AsyncIterator[Client]:
        async def on_closed() -> None:
            lost.set()

        client = await connect(self._settings, closed_cb=on_closed, on_drop=self._warn_once("bus_notes_dropped"))
        try:
            self._prefix = find_prefix(self._address, self._secret_keys)
            await self._subscribe(client, hearer, TURNS)
            yield client
        finally:
            self._client = None
            await leave(client)

    async def _use(self, client: Client, hearer: Hearer, lost: asyncio.Event) -> None:
        joining = asyncio.create_task(self._join_workers(client, hearer), name="bus workers")
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lost.wait(), SETTLE_SECONDS)
            if not lost.is_set():
                self._client = client
                hearer.look_again()
                await lost.wait()
        finally:
            self._client = None
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
            hearer.look_again()

    async def _join_workers(self, client: Client, hearer: Hearer) -> None:
        await self._has_worker.wait()
        with contextlib.suppress(*FAILURES):
            await self._subscribe(client, hearer, JOBS, queue="workers")

    async def _subscribe(self, client: Client, hearer: Hearer, channel: str, queue: str = "") -> None:
        subject, refuse = f"{self._prefix}.{channel}", self._warn_once("bus_message_refused")

        async def read(message: Msg) -> None:
            notes = self._open(subject, message.data)
            if notes is None:
                await refuse()
            for note in notes or ():
                hearer.receive(channel, note)

        await client.subscribe(
            subject, queue, cb=read, pending_msgs_limit=WAITING_MESSAGES, pending_bytes_limit=WAITING_BYTES
        )

    def _open(self, subject: str, data: bytes) -> list[str] | None:
        # None: no process of ours has sent it like that.
        if len(data) > MOST_BYTES:
            return None
        with contextlib.suppress(Undecryptable, ValueError):
            notes = json.loads(self._vault.decrypt(subject, data.decode("ascii")))
            if isinstance(notes, list) and all(isinstance(note, str) for note in notes):
                return notes
        return None

    def _warn_once(self, event: str) -> Callable[[], Awaitable[None]]:
        # Whoever reaches the server can send as much as they like, and the log is no place for it.
        is_told = False

        async def warn() -> None:
            nonlocal is_told
            if not is_told:
                log.warning(event, subjects=f"{self._prefix}.>")
            is_told = True

        return warn


def split(notes: Iterable[str]) -> Iterator[list[str]]:
    """Yield the notes in batches that fit into a message."""
    batch: list[str] = []
    chars = 0
    for note in notes:
        if batch and chars + len(note) > MOST_CHARS:
            yield batch
            batch, chars = [], 0
        batch.append(note)
        chars += len(note)
    if batch:
        yield batch


async def leave(client: Client) -> None:
    """Close the connection; a server that is silent is not waited for."""
    with contextlib.suppress(*FAILURES):
        await run_with_timeout(CLOSE_SECONDS, client.close())
