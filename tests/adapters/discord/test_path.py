"""How many files somebody reads to follow one mention on Discord from the event to the post."""

from functools import partial

import asyncpg

from tests.adapters.discord.conftest import Scene
from tests.standins.openai_api import Answer
from tests.support.entered import files_entered, in_each, to_report
from tests.support.eventually import eventually

# It may only become smaller.
MOST_FILES = 39


async def test_a_mention_goes_through_few_files(server: Scene, owner: asyncpg.Connection) -> None:
    async def is_delivered(number: int) -> bool:
        # By a connection of its own: one of Parley's would count.
        return bool(number == await owner.fetchval("SELECT count(*) FROM outbox WHERE status = 'delivered'"))

    server.model.play([Answer("Hello.")] * 9)
    await server.ann.says("hello", server.ann.dm())
    await eventually(partial(is_delivered, 1))
    rounds = []
    for number in range(2, 10):
        with files_entered() as entered:
            await server.ann.says("hello again", server.ann.dm())
            await eventually(partial(is_delivered, number))
        rounds.append(entered)

    entered = in_each(rounds)

    assert len(entered) <= MOST_FILES, to_report(entered)
