"""How many files somebody reads to follow one message from the request to its answer."""

from collections.abc import Callable

from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer
from tests.support.entered import files_entered, in_each, to_report

# They may only become smaller.
MOST_FILES, MOST_FILES_OF_A_CALL = 38, 59


async def enter(site: Site, play: Callable[[], None]) -> dict[str, set[str]]:
    """Return the files that each of eight messages enters."""
    await site.posts("hello")
    await site.parley.sql("UPDATE users SET token_budget_monthly = NULL")
    # The notification of an answer may overtake the answer, which then is read from the tables: that is another path.
    await site.parley.app.events.close()
    rounds = []
    for _ in range(8):
        play()
        with files_entered() as entered:
            await site.posts("hello again")
        rounds.append(entered)
    return in_each(rounds)


async def test_a_message_goes_through_few_files(site: Site) -> None:
    entered = await enter(site, lambda: None)

    assert len(entered) <= MOST_FILES, to_report(entered)


async def test_a_message_with_a_tool_call_goes_through_few_files(site: Site) -> None:
    calls = [("calculator__calculate", {"expression": "2+2"})]

    entered = await enter(site, lambda: site.parley.model.play([Answer("", tool_calls=calls), Answer("4")]))

    assert len(entered) <= MOST_FILES_OF_A_CALL, to_report(entered)
