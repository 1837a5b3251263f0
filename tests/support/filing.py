"""What tests of files share: chunks in and out, and people to own them."""

from collections.abc import AsyncIterator

from sqlalchemy import text

from shared.db.database import Database
from shared.files.storage import Storage
from shared.files.stores.store import Store


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def everything(store: Store | Storage, key: str) -> bytes:
    return b"".join([chunk async for chunk in store.get(key)])


async def add_user(database: Database) -> int:
    async with database.transaction() as session:
        return int((await session.execute(text("INSERT INTO users DEFAULT VALUES RETURNING id"))).scalar_one())
