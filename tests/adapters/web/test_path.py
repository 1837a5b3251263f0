"""How many files somebody reads to follow one message from the request to its answer."""

from tests.adapters.web.conftest import Site
from tests.support.entered import files_entered, in_each, to_report

# It may only become smaller.
MOST_FILES = 27


async def test_a_message_goes_through_few_files(site: Site) -> None:
    await site.posts("hello")
    # The notification of an answer may overtake the answer, which then is read from the tables: that is another path.
    await site.parley.app.events.close()
    rounds = []
    for _ in range(3):
        with files_entered() as entered:
            await site.posts("hello again")
        rounds.append(entered)

    entered = in_each(rounds)

    assert len(entered) <= MOST_FILES, to_report(entered)
