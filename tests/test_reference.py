"""docs/reference is what `make reference` writes."""

import asyncpg

from tests.reference import build_pages, list_stale


async def test_the_reference_is_current(owner: asyncpg.Connection) -> None:
    stale = list(list_stale(await build_pages(owner)))

    assert stale == [], "run `make reference`"


async def test_everything_that_the_reference_names_is_explained(owner: asyncpg.Connection) -> None:
    pages = await build_pages(owner)

    empty = {name: [line for line in page.splitlines() if line.endswith("|  |")] for name, page in pages.items()}
    assert {name: lines for name, lines in empty.items() if lines and name != "commands"} == {}
    assert "\n\n\n" not in pages["tables"]
