"""`python -m tests.reference` writes the pages of `docs/reference`, with a database of its own."""

import asyncio

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.embedded.server import start_postgres
from tests.reference import build_pages, find_page, list_stale
from tests.support.connections import connected
from tests.support.folders import temporary_folder
from tests.support.source_tree import ROOT


async def write_pages(address: Address) -> None:
    """Make the tables of an empty database, describe them, write what differs, and say so."""
    await update_tables(address)
    async with connected(address) as connection:
        pages = await build_pages(connection)
    for name in list(list_stale(pages)):
        find_page(name).parent.mkdir(exist_ok=True)
        find_page(name).write_text(pages[name], "utf-8")
        print(f"parley: wrote {find_page(name).relative_to(ROOT)}")  # noqa: T201  # a program


def main() -> None:
    """Write the pages."""
    with temporary_folder("reference") as folder:
        asyncio.run(write_pages(Address(start_postgres(folder), is_embedded=True)))


if __name__ == "__main__":
    main()
