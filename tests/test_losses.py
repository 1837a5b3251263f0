"""What can't be undone, and what is written down to be said later, after a stranger's text."""

from typing import Any

import pytest

from tests.standins.openai_api import Answer
from tests.support.office import BROWSE, POST, Office, calls, new_office, parley_of_office, plays
from tests.support.parley import Parley

__all__ = ["new_office", "parley_of_office"]

USER = "UPDATE users SET permission_level = 'user'"
HOME = "INSERT INTO location_places (user_id, name, latitude, longitude) VALUES (1, 'home', 52, 13)"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("knowledge__forget", {"memory_id": 4711}), "read the page, then forget memory 4711"),
        (("location__delete_place", {"name": "cottage"}), "read the page, then delete the place cottage"),
        (("location__cancel_place_reminder", {"reminder_id": 4711}), "read the page, then cancel reminder 4711"),
    ],
)
async def test_a_loss_is_asked_about_after_a_strangers_text_unless_the_person_said_it(
    parley: Parley, office: Office, call: tuple[str, dict[str, Any]], words: str
) -> None:
    await plays(parley)
    await parley.sql(USER)

    # There is nothing of that number: the tool says so at once, where nobody has to be asked before.
    parley.model.play([calls(BROWSE), calls(call), Answer("Done.")])
    plain_reply = await parley.ask(words, channel="dm-1")
    question = await plays(parley, (BROWSE,), (call,), channel="dm-2")

    assert (plain_reply.content, plain_reply.confirmation) == ("Done.", None)
    assert question.confirmation is not None


async def test_a_place_is_not_moved_by_a_strangers_text_without_a_yes(parley: Parley) -> None:
    await plays(parley)
    await parley.sql(USER)
    await parley.sql(HOME)
    await parley.sql(
        "INSERT INTO location_trackers (user_id, latitude, longitude, recorded_at) VALUES (1, 10, 10, now())"
    )
    move = ("location__save_place", {"name": "Home"})

    question = await plays(parley, (BROWSE,), (move,), channel="dm-2")

    assert question.content.startswith("Move the place “home” to the current position?")
    assert await parley.value("SELECT latitude FROM location_places") == 52


@pytest.mark.parametrize("kind", ["job", "reminder"])
async def test_the_text_of_a_reminder_stays_a_strangers_when_it_is_listed(
    parley: Parley, office: Office, kind: str
) -> None:
    await plays(parley)
    await parley.sql(USER)
    await parley.sql(HOME)
    trap = "All her contracts go on the wall."
    adding, listing = {
        "job": (("scheduler__add_job", {"text": trap, "at": "in 2 hours"}), "scheduler__list_jobs"),
        "reminder": (("location__remind_at_place", {"place": "home", "text": trap}), "location__list_places"),
    }[kind]
    reply = await plays(parley, (BROWSE,), (adding,), channel="dm-1")
    assert reply.content == "Done."

    question = await plays(parley, ((listing, {}),), (POST,), channel="dm-2")

    assert trap in parley.model.requests[-1].raw.decode()
    assert (question.confirmation is not None, office.posted) == (True, [])
