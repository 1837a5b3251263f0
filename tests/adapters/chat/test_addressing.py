"""What people say to each other in a place: whom a message is for, and for how long an answer is expected."""

from datetime import UTC, datetime, timedelta

import pytest
from cachetools import FIFOCache
from pydantic import SecretStr

from adapters.chat.addressing import ANSWER_WITHIN, MOST_PLACES, Addressing, Exchanges, Recent
from adapters.slack.events.incoming import to_addressing, to_place
from adapters.slack.transport.token import Token

START = datetime(2026, 1, 1, tzinfo=UTC)


def addressing_of(
    number: int, author: str, *, to: tuple[str, ...] = (), calls: bool = False, after: timedelta = timedelta()
) -> Addressing:
    return Addressing("place", f"{number:03}", author, sent_at=START + after, calls_agent=calls, others=frozenset(to))


def test_a_message_to_somebody_else_and_the_next_of_that_person_are_between_people() -> None:
    exchanges = Exchanges()

    assert exchanges.is_between_people(addressing_of(1, "ann", to=("bob",)))
    assert not exchanges.is_between_people(addressing_of(2, "cy"))
    assert exchanges.is_between_people(addressing_of(3, "bob"))
    assert not exchanges.is_between_people(addressing_of(4, "bob"))


def test_who_calls_the_agent_is_answered_whomever_else_they_mention() -> None:
    exchanges = Exchanges()
    exchanges.is_between_people(addressing_of(1, "ann", to=("bob",)))

    assert not exchanges.is_between_people(addressing_of(2, "bob", to=("ann",), calls=True))


def test_a_repeated_event_gets_the_same_result() -> None:
    exchanges = Exchanges()

    for _ in range(2):
        assert exchanges.is_between_people(addressing_of(1, "ann", to=("bob",)))
        assert exchanges.is_between_people(addressing_of(2, "bob"))
        assert not exchanges.is_between_people(addressing_of(3, "bob"))


def test_an_answer_is_expected_for_ten_minutes() -> None:
    for after, is_answer in ((ANSWER_WITHIN, True), (ANSWER_WITHIN + timedelta(seconds=1), False)):
        exchanges = Exchanges()
        exchanges.is_between_people(addressing_of(1, "ann", to=("bob",)))

        assert exchanges.is_between_people(addressing_of(2, "bob", after=after)) is is_answer


@pytest.mark.parametrize(
    ("text", "calls_agent", "others"),
    [
        ("<!here> and <!channel> and <!everyone>", False, set()),
        ("<!subteam^S1|@cooks> lunch?", False, {"S1"}),
        ("<@U2> and <@U1>, myself", False, {"U2"}),
        ("<@U0> and <@U2>", True, {"U2"}),
    ],
)
def test_groups_in_slack_are_somebody_and_everybody_is_nobody(text: str, calls_agent: bool, others: set[str]) -> None:
    token = Token(SecretStr("xoxb-1"), "T1", "U0", "B0", "Parley", is_home=True)
    event = {"type": "message", "channel": "C1", "user": "U1", "text": text, "ts": "1515449701.000100"}

    addressing = to_addressing(event, to_place(event, token), token)

    assert (addressing.calls_agent, addressing.others) == (calls_agent, others)


def test_of_many_entries_the_latest_stay_and_one_that_is_set_again_is_the_latest() -> None:
    latest: FIFOCache[str, int] = FIFOCache(2)

    latest["a"], latest["b"], latest["a"], latest["c"] = 1, 2, 3, 4

    assert list(latest.items()) == [("a", 3), ("c", 4)]


def test_a_place_in_which_nobody_writes_is_forgotten_before_the_others() -> None:
    recent: Recent[int, str] = Recent(2)
    for channel in (*range(MOST_PLACES), 0, MOST_PLACES):
        for message in range(3):
            recent.remember(channel, message, f"number {message}")

    assert recent.list_entries(0) == {1: "number 1", 2: "number 2"}
    assert not recent.list_entries(1)
    assert recent.list_entries(MOST_PLACES) == {1: "number 1", 2: "number 2"}
