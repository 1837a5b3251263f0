"""Support for tests of recovery: replaced collaborators, and a Postgres that may be restarted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncSession

from adapters.cli.compose import open_app
from adapters.cli.worker import build_worker
from agent.app import App
from agent.live.notifier import Notifier
from agent.queue.inbox import Inbox
from agent.queue.outbox import Senders
from shared.db.database import Address, Database, DatabaseLost
from shared.db.driver import Connection
from shared.db.embedded.server import find_server
from shared.db.hosts import URL
from shared.messages import IncomingMessage
from shared.settings import Settings
from tests.crash.worker import is_of_turn
from tests.standins.openai_api import OpenAIStub
from tests.support.connections import connected
from tests.support.parley import FakePlatform, Parley
from tests.support.processes import kill_server

OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()"


def replaced(app: App, **parts: Any) -> App:
    """Return the app with these parts, each a field of `App`, of `Models` or of `ToolSources`."""
    groups: dict[str, Any] = {}
    for group in ("models", "tools"):
        own = {name: parts.pop(name) for name in list(parts) if name in getattr(app, group).__struct_fields__}
        groups[group] = replace(getattr(app, group), **own)
    return replace(app, **groups, **parts)


async def accept_patiently(database: Database, event: IncomingMessage) -> int:
    """Store an event as an adapter does: retry until it is stored, and only then acknowledge."""
    inbox = Inbox(database, Notifier(database))
    while True:
        try:
            return (await inbox.accept(event)).inbox_id
        except DatabaseLost:
            await asyncio.sleep(0.05)


async def answer_of(parley: Parley, event: IncomingMessage) -> tuple[str | None, str]:
    """Store an event and wait for its answer, however long a restart takes; return the error and the text."""
    async with asyncio.timeout(100):
        inbox_id = await accept_patiently(parley.app.database, event)
        while True:
            try:
                response = await parley.app.events.response(inbox_id)
            except DatabaseLost:
                await asyncio.sleep(0.05)
            else:
                return response.error, response.content


@asynccontextmanager
async def open_parley_with(
    settings: Settings,
    address: Address,
    model: OpenAIStub,
    *,
    senders: Senders | None = None,
    **parts: Any,
) -> AsyncIterator[Parley]:
    """Open a `Parley` with a worker, with these fields of `App`, its models or its tools replaced."""
    platform = FakePlatform()
    async with open_app(settings, address, senders or {"fake": platform}) as app:
        parley = Parley(replaced(app, **parts), model, platform)
        parley.worker = asyncio.create_task(build_worker(parley.app).run(), name="worker of the parley")
        try:
            yield parley
        finally:
            parley.worker.cancel()
            await asyncio.gather(parley.worker, return_exceptions=True)


async def control(home: Path, action: str, mode: str) -> None:
    """Let `pg_ctl` restart or stop the embedded Postgres of this home; `immediate` is a crash of it."""
    await asyncio.to_thread(find_server(home).control, action, mode)


async def kill_postgres(home: Path) -> None:
    """Kill the embedded Postgres of this home with all its processes, as a lost machine does, and start it again."""
    await asyncio.to_thread(kill_server, home / "postgres")
    await control(home, "restart", "immediate")


async def cut_connections(server: URL, address: Address) -> int:
    """End every connection to a database, as a failover does; return how many there were."""
    async with connected(Address(server, is_embedded=True)) as owner:
        return len(await owner.fetch(OTHERS, address.url.database))


async def repeated_effects(parley: Parley) -> list[Any]:
    """Return the memories that exist more than once: `remember` must not run twice."""
    return await parley.sql("SELECT content FROM memories GROUP BY 1 HAVING count(*) > 1")


class ForgetfulDatabase(Database):
    """A database that loses the acknowledgement of the `lost`-th commit of a turn; `count` counts the commits."""

    count = lost = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        async with super().transaction() as session:
            yield session
        self._forget()

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        async with super().statement() as session:
            yield session
        self._forget()

    def _forget(self) -> None:
        if is_of_turn():
            self.count += 1
            if self.count == self.lost:
                raise DatabaseLost


@dataclass
class LosingAcknowledgements:
    """A `Parley` that loses the acknowledgement of one commit in each turn, of a later one each time.

    The statements of `parley` itself lose none.
    """

    parley: Parley
    database: ForgetfulDatabase

    @property
    def lost(self) -> int:
        """Return which commit of the present turn loses its acknowledgement."""
        return self.database.lost

    async def messages(self) -> AsyncIterator[str]:
        """Return messages to send, until a turn has made fewer commits than the one that is lost."""
        while self.database.count >= self.database.lost:
            self.database.count, self.database.lost = 0, self.database.lost + 1
            async with asyncio.timeout(100):
                yield f"message {self.lost}"
        assert self.lost > 5


@asynccontextmanager
async def losing_acknowledgements(
    settings: Settings, address: Address, model: OpenAIStub, database: Database, **parts: Any
) -> AsyncIterator[LosingAcknowledgements]:
    """Open one with these parts; after the block each turn is answered, and nothing was done or paid twice."""
    forgetful = ForgetfulDatabase(address, pool_size=5)
    async with open_parley_with(settings, address, model, database=forgetful, **parts) as parley:
        observer = Parley(replace(parley.app, database=database), model, parley.platform)
        yield LosingAcknowledgements(observer, forgetful)
        assert await observer.value("SELECT count(*) FROM turns WHERE status <> 'answered'") == 0
        assert await observer.value("SELECT count(*) FROM budget_reservations") == 0
        assert await repeated_effects(observer) == []
        assert await observer.value("SELECT count(*) FROM token_logs") == model.count
        ledger = "SELECT sum(input_tokens + output_tokens) FROM token_logs"
        assert await observer.value(f"SELECT sum(tokens_used_this_month) = ({ledger}) FROM users")  # noqa: S608  # our own
    await forgetful.close()
