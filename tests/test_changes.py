"""What an admin changes reaches every process at once, also when a connection was cut meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import asyncpg
import pytest
from pydantic import SecretStr

from adapters.slack.install.installations import Installations, Installed, Vault
from agent.live.listener import Listener
from shared.clock import SystemClock
from shared.db.database import Address, Database
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.eventually import PATIENCE
from tests.support.parley import Parley, open_parley

CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (query LIKE 'LISTEN%parley_%' OR query LIKE '%pg_notify(channel,%')
"""
# One statement of each kind that an admin types, with the table that it changes.
STATEMENTS = {
    "personas": "INSERT INTO personas (name, system_prompt, platform) VALUES ('Sage', 'You are wise.', 'test')",
    "users": "UPDATE users SET permission_level = 'admin'",
    "role_grants": "INSERT INTO role_grants (platform, server, role, token_budget) VALUES ('test', 'a', 'b', 9)",
    "channel_modes": "INSERT INTO channel_modes (platform, platform_channel_id, mode) VALUES ('discord', '1', 'off')",
    "agents": "INSERT INTO agents (name, description, url) VALUES ('far', 'Is far.', 'http://127.0.0.1:9/')",
    "mcp_servers": "INSERT INTO mcp_servers (name, transport, command, enabled) VALUES ('m', 'stdio', 'm', false)",
    "data_sources": "DELETE FROM data_sources",
    "memory_retention": "DELETE FROM memory_retention",
    "servers": "INSERT INTO servers (platform, platform_server_id) VALUES ('test', 'a')",
}


@dataclass
class Heard:
    """What one process has been told: the names of tables, None when it may have missed some."""

    tables: list[str | None] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, table: str | None) -> None:
        self.tables.append(table)
        self.arrived.set()

    async def wait_for(self, table: str | None) -> None:
        async with asyncio.timeout(PATIENCE):
            while table not in self.tables:
                self.arrived.clear()
                await self.arrived.wait()
        self.tables.clear()


@pytest.fixture
async def other(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Parley]:
    """A second process with a worker and caches of its own."""
    async with open_parley(settings, address, model) as parley:
        yield parley


async def test_two_workers_hear_of_each_change_and_their_next_messages_see_it(
    parley: Parley, other: Parley, model: OpenAIStub, owner: asyncpg.Connection
) -> None:
    heard = [Heard(), Heard()]
    for recorder, process in zip(heard, (parley, other), strict=True):
        process.app.events.on_change(recorder.hear)
    await asyncio.gather(*(parley.ask("hello", user=user) for user in ("ann", "bob", "cid")))
    for table, statement in STATEMENTS.items():
        began = time.monotonic()
        await owner.execute(statement)
        await asyncio.gather(*(listener.wait_for(table) for listener in heard))
        print(f"{table}: heard by both after {1000 * (time.monotonic() - began):.1f} ms")  # noqa: T201  # measured, not asserted

    async def prompts() -> set[str]:
        # Either worker takes them.
        people = ("ann", "bob", "cid")
        await asyncio.gather(*(parley.ask("who are you?", user=user) for user in people))
        requests = list(model.requests)[-len(people) :]
        return {str(request.body["messages"][0]["content"]).partition("\n")[0] for request in requests}

    assert await prompts() == {"You are wise."}
    await owner.execute(CUT)
    await asyncio.gather(*(listener.wait_for(None) for listener in heard))
    await owner.execute("UPDATE personas SET system_prompt = 'You are wiser.'")
    await asyncio.gather(*(listener.wait_for("personas") for listener in heard))
    assert await prompts() == {"You are wiser."}


async def test_what_the_program_counts_itself_is_announced_to_nobody(parley: Parley) -> None:
    heard = Heard()
    parley.app.events.on_change(heard.hear)

    await parley.ask("hello")
    await parley.ask("hello again")
    await parley.sql("UPDATE skills SET is_enabled = false")

    async with asyncio.timeout(PATIENCE):
        await heard.arrived.wait()
    assert heard.tables == ["skills"]


async def test_what_is_kept_is_read_again_after_a_change_by_another_process(database: Database) -> None:
    heard, events = Heard(), Listener(database, ["a key"])
    here, there = (Installations(database, Vault(["a key"]), SystemClock()) for _ in range(2))
    await events.start()
    events.on_change(here.forget)
    events.on_change(heard.hear)

    async def token() -> str:
        installation = await here.find("T1")
        return "" if installation is None else installation.secret.get_secret_value()

    for secret in ("xoxb-1", "xoxb-2"):
        await there.save(Installed("T1", "Acme", "U1", SecretStr(secret)))
        await heard.wait_for("slack_installations")
        assert await token() == secret
    await events.close()
