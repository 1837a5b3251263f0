"""docs/discord.md: its statements run as they stand, and it names the permissions that are asked for."""

import pytest

from adapters.discord.doctor import NEEDED, USEFUL
from shared.db.database import Address
from tests.support.documents import Block, document
from tests.support.given_database import connect

PAGE = document("docs/discord.md")


@pytest.mark.parametrize("block", PAGE.blocks("sql"), ids=lambda block: block.heading)
async def test_a_statement_of_the_page_runs(address: Address, block: Block) -> None:
    connection = await connect(address, as_owner=False)
    await connection.execute(block.text)
    await connection.close()


def test_the_permissions_on_the_page_are_those_that_the_invitation_asks_for() -> None:
    page = " ".join(PAGE.text.lower().split())

    assert [each for each in (*NEEDED, *USEFUL) if each.replace("_", " ") not in page] == []
