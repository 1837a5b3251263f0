"""A Postgres as an admin provides it: over TCP, with a password, for an owner who is not a superuser."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import asyncpg

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.hosts import URL
from shared.db.roles import ROLES
from tests.support.connections import connected, run_as_owner
from tests.support.relay import relay

PASSWORD = "s3cret:p/w@d"
# Owners of provided databases need their password; everybody else is trusted, as by the embedded server.
ASK_PASSWORD = 'local all "/^owner_" scram-sha-256\n'


@asynccontextmanager
async def given_database(
    postgres: URL, *, rights: str = "CREATEROLE", owns: bool = True, has_vector: bool = True
) -> AsyncIterator[Address]:
    """Create an empty database whose owner has these rights, and a TCP port for it.

    If the server already has Parley's roles, they are granted to the owner; otherwise they are dropped at the end.
    """
    name = f"owner_{uuid4().hex}"
    async with AsyncExitStack() as closing:
        superuser = await closing.enter_async_context(connected(Address(postgres, is_embedded=True)))
        await _ask_for_passwords(superuser)
        await superuser.execute(f"CREATE ROLE {name} LOGIN {rights} PASSWORD '{PASSWORD}'")
        await superuser.execute(f"CREATE DATABASE {name} OWNER {name if owns else 'postgres'}")
        has_roles = await superuser.fetchval("SELECT count(*) > 0 FROM pg_roles WHERE rolname = 'parley_app'")
        if has_roles:
            await superuser.execute(f"GRANT {', '.join(ROLES)} TO {name}")
        closing.push_async_callback(_drop, superuser, name, name if has_roles else ", ".join((*ROLES, name)))
        if has_vector:
            await run_as_owner(Address(postgres.set(database=name), is_embedded=True), "CREATE EXTENSION vector")
        socket = f"{postgres.query['host']}/.s.PGSQL.5432"
        port = await closing.enter_async_context(relay(lambda: asyncio.open_unix_connection(socket)))
        yield Address(
            URL(username=name, password=PASSWORD, host="127.0.0.1", port=port, database=name), is_embedded=False
        )


@asynccontextmanager
async def given_tables(postgres: URL) -> AsyncIterator["GivenTables"]:
    """Make a database as `given_database` does, with all tables, for copies of it, which belong to the same login."""
    async with given_database(postgres) as template:
        await update_tables(template)
        yield GivenTables(postgres, template)


@dataclass(frozen=True)
class GivenTables:
    """A database with all tables, which is copied: to make the tables takes ten times as long."""

    postgres: URL
    template: Address

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Address]:
        """Have a copy for the block."""
        name, url = f"given_{uuid4().hex}", self.template.url
        async with connected(Address(self.postgres, is_embedded=True)) as superuser:
            copied = f"TEMPLATE {url.database} STRATEGY FILE_COPY"
            await superuser.execute(f"CREATE DATABASE {name} OWNER {url.username} {copied}")
            try:
                yield Address(url.set(database=name), is_embedded=False)
            finally:
                await superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def _drop(superuser: asyncpg.Connection, name: str, roles: str) -> None:
    await superuser.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await superuser.execute(f"DROP ROLE IF EXISTS {roles}")


async def _ask_for_passwords(superuser: asyncpg.Connection) -> None:
    if _write_rule(Path(await superuser.fetchval("SHOW hba_file"))):
        # The server reloads the rules before it accepts the next connection.
        await superuser.execute("SELECT pg_reload_conf()")


def _write_rule(rules: Path) -> bool:
    content = rules.read_text()
    if content.startswith(ASK_PASSWORD):
        return False
    rules.write_text(ASK_PASSWORD + content)
    return True
