"""App Home: a person's own things, for that person's eyes, and the workspace's budget for admins."""

from typing import Any

from agent.commands.panels import list_panels
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer
from tests.standins.slack import Json, Person, show


async def wait_for_home(scene: Scene, person: Person, *words: str) -> str:
    """Return what a Home says as soon as it says all of these."""

    def says() -> str:
        text = show(scene.slack.world, person.home) if person.home is not None else ""
        return text if all(word in text for word in words) else ""

    return str(await scene.slack.until(says))


async def remembers(scene: Scene, person: Person, *facts: str) -> None:
    """Let the agent remember something that this person says in private."""
    calls = [("knowledge__remember", {"content": fact}) for fact in facts]
    scene.model.play([Answer(tool_calls=calls), Answer("Noted.")])
    await person.direct("remember this")
    await person.hears()


def buttons(home: Json, label: str) -> list[Json]:
    return [
        block["accessory"]
        for block in home["blocks"]
        if block.get("accessory", {}).get("text", {}).get("text") == label
    ]


def with_button(home: Json, button: Json) -> Json:
    """Return a home with this button alone, whoever's it is."""
    return home | {"blocks": [{"type": "section", "block_id": "lone", "accessory": button}]}


async def test_a_home_shows_budget_persona_and_memories_of_its_person_alone(office: Scene) -> None:
    await office.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('Bike', 'Entry.', 'slack')")
    await remembers(office, office.ann, "Ann likes <boats> & *carts*")
    await office.sql("UPDATE users SET tokens_used_this_month = 1250")

    await office.ann.opens_home()
    home = await wait_for_home(office, office.ann, "Your budget", "Bike", "Ann likes <boats> & *carts*", "Privacy")
    await office.bob.opens_home()
    others = await wait_for_home(office, office.bob, "Your budget", "Nothing yet.")

    assert all(panel.title in home for panel in list_panels())
    assert "▓▓▓▓▓░░░░░░░░░░░░░░░ 25%" in home
    assert "1,250 of 5,000 tokens" in home
    assert "This workspace" not in home
    assert "boats" not in others
    assert {call.args["user_id"] for call in office.slack.calls("views.publish")} == {office.ann.id, office.bob.id}
    assert office.refusals() == []


async def test_a_memory_is_forgotten_by_its_person_and_by_nobody_else(office: Scene) -> None:
    await remembers(office, office.ann, "Ann likes boats", "Ann likes bikes")
    await office.ann.opens_home()
    await office.bob.opens_home()
    await wait_for_home(office, office.ann, "boats", "bikes")
    await wait_for_home(office, office.bob, "Nothing yet.")
    assert office.ann.home is not None
    assert office.bob.home is not None
    button = buttons(office.ann.home, "Forget")[0]

    await office.bob.presses_in_view(with_button(office.bob.home, button), "Forget")
    await wait_for_home(office, office.bob, "It was forgotten before.")
    await office.ann.presses_in_view(with_button(office.ann.home, button), "Forget")
    await wait_for_home(office, office.ann, "I have forgotten it.")
    await office.ann.presses_in_view(with_button(office.ann.home, button), "Forget")
    await wait_for_home(office, office.ann, "It was forgotten before.")

    assert len(buttons(office.ann.home, "Forget")) == 1
    assert office.refusals() == []


async def test_an_admin_sees_the_workspaces_spend_and_sets_its_budget(office: Scene) -> None:
    usage: Any = {"usage": {"prompt_tokens": 900, "completion_tokens": 200, "total_tokens": 1100}}
    office.model.play([Answer("Expensive.", **usage)])
    await office.ann.direct("hello")
    await office.ann.hears()
    await office.sql("UPDATE users SET permission_level = 'admin'")

    await office.ann.opens_home()
    await wait_for_home(office, office.ann, "This workspace", "1 people have used 1,100 tokens", "no budget for all")
    assert office.ann.home is not None
    form = await (await office.ann.presses_in_view(office.ann.home, "Change the budget")).view()
    submission = await office.ann.submits(form, budget="a lot")
    assert "whole number" in submission.response["errors"]["budget"]
    assert await office.sql("SELECT 1 FROM servers WHERE token_budget_monthly IS NOT NULL") == []
    await office.ann.submits(form, budget="4000")

    view = await wait_for_home(office, office.ann, "is 4,000 tokens now")
    assert "0 of 4,000 tokens" in view
    assert await office.sql("SELECT platform_server_id, token_budget_monthly FROM servers") == [
        (office.slack.team_id, 4000)
    ]
    await office.ann.submits(form)
    await wait_for_home(office, office.ann, "budget is unlimited")
    assert await office.value("SELECT token_budget_monthly FROM servers") is None


async def test_a_form_of_a_former_admin_changes_nothing(office: Scene) -> None:
    office.model.play([Answer("Hi.")])
    await office.ann.direct("hello")
    await office.ann.hears()
    await office.sql("UPDATE users SET permission_level = 'admin'")
    await office.ann.opens_home()
    await wait_for_home(office, office.ann, "This workspace")
    assert office.ann.home is not None
    form = await (await office.ann.presses_in_view(office.ann.home, "Change the budget")).view()
    old = office.ann.home

    await office.sql("UPDATE users SET permission_level = 'guest', token_budget_monthly = 5000")
    submission = await office.ann.submits(form, budget="4000")
    await office.ann.presses_in_view(old, "Change the budget")

    assert submission.response["errors"]["budget"] == "This needs the permission admin; yours is guest."
    assert "This needs the permission admin" in await wait_for_home(office, office.ann, "This needs")
    assert len(office.slack.calls("views.open")) == 1
    assert await office.sql("SELECT 1 FROM servers WHERE token_budget_monthly IS NOT NULL") == []


async def test_a_scheduled_job_is_shown_to_its_person_and_cancelled_there(office: Scene) -> None:
    office.model.play([Answer("Hi.")])
    for person in (office.ann, office.bob):
        await person.direct("hello")
        await person.hears()
    await office.sql("UPDATE users SET permission_level = 'user'")
    interaction = await office.ann.slash(office.ann.dm, "/parley", "schedule add tomorrow at 9: Water the plants")
    assert "Scheduled: 1: Water the" in (await interaction.answered())[-1]
    await office.ann.opens_home()
    await office.bob.opens_home()
    await wait_for_home(office, office.ann, "What is scheduled for you", "Water the plants")
    assert "plants" not in await wait_for_home(office, office.bob, "Nothing is scheduled.")
    assert office.ann.home is not None
    assert office.bob.home is not None
    button = buttons(office.ann.home, "Cancel")[0]

    await office.bob.presses_in_view(with_button(office.bob.home, button), "Cancel")
    await wait_for_home(office, office.bob, "It was over before.")
    await office.ann.presses_in_view(with_button(office.ann.home, button), "Cancel")
    await wait_for_home(office, office.ann, "I have cancelled it.", "Nothing is scheduled.")

    assert await office.value("SELECT status FROM scheduled_jobs") == "cancelled"
    assert office.refusals() == []
