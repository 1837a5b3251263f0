"""Runs the migrations, in one process at a time and with a timeout for locks."""

import asyncio

import asyncpg
from alembic import context
from sqlalchemy import Connection, NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from shared.db.database import Address
from shared.db.migrations import MIGRATION_LOCK, MIGRATION_LOCK_SECONDS


async def migrate(address: Address) -> None:
    """Bring this database to the newest revision."""

    async def connect() -> asyncpg.Connection:
        connection = await address.connect(as_owner=True, statement_seconds=0)
        await connection.execute("SELECT set_config('lock_timeout', $1, false)", f"{MIGRATION_LOCK_SECONDS}s")
        return connection

    # The lock needs its own connection, because it spans the transactions of all migrations.
    guard = await address.connect(as_owner=True, statement_seconds=0)
    try:
        await guard.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)
        engine = create_async_engine("postgresql+asyncpg://", async_creator=connect, poolclass=NullPool)
        async with engine.connect() as connection:
            await connection.run_sync(run_migrations)
        await guard.execute("SELECT public.parley_bind_owner()")
    finally:
        await guard.close()


def run_migrations(connection: Connection) -> None:
    """Run what this database lacks, each migration in a transaction of its own."""
    context.configure(connection=connection, transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


asyncio.run(migrate(context.config.attributes["address"]))
