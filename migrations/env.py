"""Runs the migrations, in one process at a time and with a timeout for locks."""

import asyncio
from typing import Any

import asyncpg
from alembic import context
from sqlalchemy import Connection, NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from shared.db.database import Address
from shared.db.driver import to_sql
from shared.db.migrations import MIGRATION_LOCK, MIGRATION_LOCK_SECONDS, statements


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
    finally:
        await guard.close()


def run_migrations(connection: Connection) -> None:
    """Run what this database lacks, each migration in a transaction of its own, with what its tables need."""
    context.configure(connection=connection, transaction_per_migration=True, on_version_apply=bring_in_line)
    with context.begin_transaction():
        context.run_migrations()


def bring_in_line(*_step: Any, **_arguments: Any) -> None:
    """Bind the owner of the tables that a migration has made, and number them, before it is committed."""
    context.get_bind().exec_driver_sql(to_sql(statements.bring_in_line))


asyncio.run(migrate(context.config.attributes["address"]))
