"""Plans with calls that wait for a yes: no dependent call runs before it, and no response is sent."""

from collections.abc import AsyncIterator

import pytest

from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.support.office import MAIL, Office, open_office, statuses
from tests.support.parley import Parley
from tests.support.planning import call, plan, results_in

SEND = call("office.send", "s", **MAIL[1])


@pytest.fixture
def office() -> Office:
    """The office whose tools these tests use."""
    return Office()


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub, office: Office) -> AsyncIterator[Parley]:
    """An installation in planner mode with tools that need a person's yes."""
    configuration = settings.model_copy(update={"planner_percent": 100})
    async with open_office(configuration, address, model, office) as parley:
        yield parley
        assert model.refusals == []


async def test_a_plan_waits_for_a_yes_and_goes_on_with_the_result(
    parley: Parley, model: OpenAIStub, office: Office
) -> None:
    notes = call("office.post", "p", "s", text="Bob knows.")
    first = plan(SEND, notes, status="done", response="Bob knows now.")
    model.play([first, plan(notes | {"needs": []}), plan(response="Done.")])

    question = await parley.ask("mail Bob, then post that he knows")
    before = (list(office.sent), list(office.posted))
    reply = await parley.ask("yes")

    assert question.content.startswith("Send “See you at eight.” to bob?")
    assert before == ([], [])
    assert (reply.content, office.sent, office.posted) == ("Done.", [("bob", "See you at eight.")], ["Bob knows."])
    assert await statuses(parley) == ["used"]
    # The confirmed call is in no plan of this turn, but its result is shown.
    assert list(results_in(model.requests[1].body).values()) == [{"sent_to": "bob"}]


async def test_a_plan_with_untrusted_text_and_private_data_needs_a_yes_to_act(
    parley: Parley, model: OpenAIStub, office: Office
) -> None:
    reads = (call("office.browse", "b"), call("office.look_up", "l"))
    post = call("office.post", "p", "b", "l", text="$l, says $b")
    model.play([plan(*reads, post, status="done", response="Posted.")])

    reply = await parley.ask("read the page and my contract")

    assert office.posted == []
    assert "Ann earns 4,200." in reply.content
    assert reply.confirmation is not None
    assert len(model.requests) == 1
