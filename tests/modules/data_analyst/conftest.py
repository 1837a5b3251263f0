"""A database of orders with a login that may only read, and its copy in files."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import text

from shared.db.database import Database
from shared.db.hosts import URL
from shared.messages import Permission
from shared.tools import ToolContext
from tests.conftest import new_database
from tests.support.connections import connected
from tests.support.tool_context import make_tool_context

ORDERS = """
CREATE TABLE orders (id int PRIMARY KEY, region text, day date, amount numeric(12, 2), "odd ""name" text);
INSERT INTO orders VALUES
    (1, 'EU', '2026-01-01', 100.10, 'a'), (2, 'EU', '2026-01-02', 200.20, 'b'), (3, 'US', '2026-01-01', 50, 'c'),
    (4, 'ASIA', '2026-01-03', 1000, 'd'), (5, NULL, '2026-01-03', 7.5, 'e'), (6, 'AFRICA', '2026-01-05', 10, 'f');
CREATE VIEW big_orders AS SELECT * FROM orders WHERE amount > 100;
CREATE TABLE secrets (word text);
"""
CSV = (
    "region,day,amount\nEU,2026-01-01,300.30\nUS,2026-01-01,50.4\nASIA,2026-01-03,1100\n"
    ",2026-01-03,7.5\nOCEANIA,2026-01-04,12.25\n"
)


@dataclass(frozen=True)
class Shop:
    """The database of the orders: its address for the read-only login, and its owner's connection."""

    url: str
    reader: str
    owner: asyncpg.Connection


@pytest.fixture
async def shop(postgres: URL) -> AsyncIterator[Shop]:
    reader = f"reader_{uuid4().hex}"
    async with new_database(postgres, template=None) as address, connected(address) as owner:
        await owner.execute(ORDERS)
        await owner.execute(f"CREATE ROLE {reader} LOGIN; GRANT SELECT ON orders, big_orders TO {reader}")
        yield Shop(f"postgresql://{reader}@/{address.url.database}?host={postgres.query['host']}", reader, owner)
        await owner.execute(f"DROP OWNED BY {reader}; DROP ROLE {reader}")


@pytest.fixture
async def context(database: Database, tmp_path: Path) -> ToolContext:
    return await make_tool_context(database, tmp_path / "files", "data_analyst", Permission.ADMIN)


AddSource = Callable[..., Awaitable[None]]


@pytest.fixture
def add_source(database: Database) -> AddSource:
    """Insert a row in `data_sources` as an admin does."""

    async def add(name: str, **fields: Any) -> None:
        columns = {"name": name, **fields}
        names, values = ", ".join(columns), ", ".join(f":{column}" for column in columns)
        async with database.transaction() as session:
            await session.execute(text(f"INSERT INTO data_sources ({names}) VALUES ({values})"), columns)

    return add


@pytest.fixture
async def sources(shop: Shop, add_source: AddSource, tmp_path: Path) -> Path:
    """The orders in Postgres, and another count of them in a file, which is returned."""
    path = tmp_path / "ledger.csv"
    path.write_text(CSV)
    await add_source("orders", kind="postgres", url=shop.url, relation="orders", description="All orders.")
    await add_source("ledger", kind="file", path=str(path))
    return path
