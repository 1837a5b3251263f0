"""How many files somebody reads to follow one mention on Discord from the event to the post."""

from tests.adapters.discord.conftest import Scene
from tests.standins.openai_api import Answer
from tests.support.entered import files_entered, in_each, to_report

# It may only become smaller.
MOST_FILES = 39


async def test_a_mention_goes_through_few_files(server: Scene) -> None:
    server.model.play([Answer("Hello.")] * 9)
    await server.ann.says("hello", server.ann.dm())
    await server.until_value(1, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    rounds = []
    for number in range(2, 10):
        with files_entered() as entered:
            await server.ann.says("hello again", server.ann.dm())
            await server.until_value(number, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
        rounds.append(entered)

    entered = in_each(rounds)

    assert len(entered) <= MOST_FILES, to_report(entered)
