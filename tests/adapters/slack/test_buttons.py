"""Buttons below answers: bound to who asked, expiring, alive after a restart, and each of them acts once."""

from datetime import UTC, datetime, timedelta

import pytest

from adapters.chat.buttons import AGAIN, GOOD, Button
from shared.db.database import Address
from shared.messages import Permission
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Interaction, Json, Person
from tests.support.office import MAIL, Office, calls
from tests.support.slack_transports import opened_by_http

CHOICES = {"question": "Bike or boat?", "options": ["Fred", "Boat"]}


def labels(message: Json) -> list[str]:
    """Return what can be pressed below a message."""
    rows = [block["elements"] for block in message.get("blocks", ()) if block["type"] == "actions"]
    return [button["text"]["text"] for row in rows for button in row]


def value_of(message: Json, label: str) -> str:
    """Return what a button says to the app."""
    rows = [block["elements"] for block in message["blocks"] if block["type"] == "actions"]
    return str(next(button["value"] for row in rows for button in row if button["text"]["text"] == label))


async def whispered(click: Interaction) -> str:
    (heard,) = await click.answered()
    assert click.responses[0]["response_type"] == "ephemeral"
    assert not click.responses[0]["replace_original"]
    return heard


@pytest.mark.settings(default_guest_token_budget=100_000)
async def test_a_click_that_slack_repeats_acts_once(office: Scene) -> None:
    tools = Office()
    office.parley.app.tools.mcp.offer(tools.tools())
    await office.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'slack')")
    office.model.play([Answer("First try."), Answer("Second try."), calls(MAIL), Answer("Sent.")])

    for count, text, label in ((1, "write a poem", "🔄"), (3, "mail Bob", "Yes")):
        await office.ann.mentions(office.general, text)
        await office.ann.hears(office.general, count)
        click = await office.ann.presses(office.general, office.ann.written(office.general)[count - 1], label)
        repeated = await office.slack.delivery.give("interactive", click.payload)
        assert repeated.acked_at is not None
        heard = await office.ann.hears(office.general, count + 1)

    assert (heard[:2], heard[3]) == (["First try.", "Second try."], "Sent.")
    assert tools.sent == [("bob", "See you at eight.")]
    assert await office.value("SELECT count(*) FROM inbox") == 4
    assert office.refusals() == []


async def test_another_choice_of_the_same_question_comes_too_late(office: Scene) -> None:
    office.model.play([Answer(tool_calls=[("dialogue__ask_question", CHOICES)]), Answer("A boat it is.")])
    await office.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'slack')")
    await office.ann.direct("choose for me")
    await office.ann.hears()
    question = office.ann.written()[0]
    fred = value_of(question, "Fred")

    boat = await office.ann.presses(office.ann.dm, question, "Boat")
    await office.slack.until(lambda: "✓ Boat" in office.ann.reads()[0])
    late = boat.payload["actions"][0] | {"value": fred}
    await office.slack.delivery.give("interactive", boat.payload | {"actions": [late]})

    assert (await boat.answered(2))[1] == "That was chosen already."
    assert await office.ann.hears(count=2) == [office.ann.reads()[0], "A boat it is."]
    assert await office.value("SELECT count(*) FROM inbox") == 2


@pytest.mark.parametrize("is_during_retry", [False, True])
async def test_a_click_on_a_question_that_slack_has_not_confirmed_is_not_undone_by_the_retry(
    office: Scene, is_during_retry: bool
) -> None:
    office.model.play([Answer(tool_calls=[("dialogue__ask_question", CHOICES)]), Answer("A boat it is.")])
    await office.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'slack')")
    office.slack.fail("chat.postMessage", is_lost=True)
    retried = office.slack.fail("chat.update", retry_after=2)

    await office.ann.direct("choose for me")
    await office.until_value(True, "SELECT error IS NOT NULL FROM outbox")
    if is_during_retry:
        await office.sql("UPDATE outbox SET claimed_until = now()")
        await office.slack.until(lambda: retried.times == 0)
    await office.ann.presses(office.ann.dm, office.ann.written()[0], "Boat")
    await office.slack.until(lambda: "✓ Boat" in office.ann.reads()[0])
    await office.sql("UPDATE outbox SET claimed_until = now() WHERE status = 'pending'")
    await office.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    assert labels(office.ann.written()[0]) == []
    assert "✓ Boat" in office.ann.reads()[0]
    assert office.ann.reads()[1:] == ["A boat it is."]


async def test_a_yes_that_needs_an_admin_is_given_by_one_in_the_askers_place(office: Scene) -> None:
    tools, carl = Office(approver=Permission.ADMIN), Person(office.slack, "Carl")
    office.parley.app.tools.mcp.offer(tools.tools())
    await office.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'slack')")
    admins = office.slack.world.add_user_group("Admins", [office.bob.user])
    grant = "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('slack', :team, :role, 'admin')"
    await office.sql(grant, team=office.slack.team_id, role=admins["id"])
    office.model.play([calls(MAIL), Answer("Sent.")])
    await office.ann.mentions(office.general, "mail Bob")
    await office.ann.hears(office.general)
    question = office.ann.written(office.general)[0]

    for person in (office.ann, carl):
        refusal = await whispered(await person.presses(office.general, question, "Yes"))
        assert refusal == "A yes to this needs the permission admin; somebody here who has it can answer in your place."
    assert tools.sent == []
    await office.bob.presses(office.general, question, "Yes")

    assert (await office.ann.hears(office.general, 2))[1] == "Sent."
    assert tools.sent == [("bob", "See you at eight.")]
    assert await office.sql(
        "SELECT asked.platform_user_id, approver.platform_user_id FROM confirmations"
        " JOIN user_platform_links AS asked USING (user_id)"
        " JOIN user_platform_links AS approver ON approver.user_id = approved_by"
    ) == [(office.ann.id, office.bob.id)]


async def test_a_running_answer_can_be_stopped_by_who_asked(office: Scene) -> None:
    slow = [Answer("One two three four five six seven eight nine.", chunk_chars=4, chunk_delay=0.5)]
    office.model.play(slow)
    await office.ann.direct("slowly")
    messages = await office.slack.until(office.ann.written)
    assert labels(messages[0]) == ["Stop"]

    stranger = await office.bob.presses(office.ann.dm, messages[0], "Stop")
    stopped = await office.ann.presses(office.ann.dm, messages[0], "Stop")
    await office.until_value("delivered", "SELECT status FROM outbox")

    assert "are for" in await whispered(stranger)
    assert await whispered(stopped) == "Stopping."
    assert await office.value("SELECT status FROM turns") == "cancelled"
    (heard,) = await office.ann.hears()
    assert heard.endswith("Stopped.")
    await office.slack.delivery.give("interactive", stopped.payload)
    assert await stopped.answered(2) == ["Stopping.", "It has ended already."]


async def test_a_long_stream_in_a_thread_offers_its_asker_a_stop_button(office: Scene) -> None:
    office.model.play([Answer("One two three four five six seven eight nine ten.", chunk_chars=2, chunk_delay=0.5)])
    await office.ann.mentions(office.general, "slowly")

    (whisper,) = await office.slack.until(lambda: office.ann.whispers(office.general))
    assert await whispered(await office.ann.presses(office.general, whisper, "Stop")) == "Stopping."
    await office.until_value("cancelled", "SELECT status FROM turns")
    assert office.bob.whispers() == []
    assert office.refusals() == []


async def test_buttons_outlive_a_restart_and_then_expire(scene: Scene, address: Address, model: OpenAIStub) -> None:
    async with scene.opened(address, model):
        model.play([Answer("Before.")])
        await scene.ann.direct("hello")
        await scene.ann.hears()
    answer = scene.ann.written()[0]

    # Another process, that Slack reaches by another way.
    async with opened_by_http(scene, address, model):
        model.play([Answer("After.")])
        old = Button(AGAIN, 1, scene.ann.id, int((datetime.now(UTC) - timedelta(days=1)).timestamp()))
        expired = await scene.ann.presses(scene.ann.dm, answer, "🔄", value=old.to_id())
        assert await whispered(expired) == "These buttons have expired."
        await scene.ann.presses(scene.ann.dm, answer, "🔄")
        assert await scene.ann.hears(count=2) == ["Before.", "After."]


async def test_a_made_up_button_id_is_refused(office: Scene) -> None:
    office.model.play([Answer("For Ann.")])
    await office.ann.mentions(office.general, "my secret")
    await office.ann.hears(office.general)
    answer = office.ann.written(office.general)[0]
    turn_id = await office.value("SELECT id FROM turns")
    until = int((datetime.now(UTC) + timedelta(days=1)).timestamp())

    for action, label in ((AGAIN, "🔄"), (GOOD, "👍")):
        forged = Button(action, turn_id, office.bob.id, until).to_id()
        interaction = await office.bob.presses(office.general, answer, label, value=forged)
        assert await whispered(interaction) == "That answer is gone."
    for strange in (
        "",
        "parley",
        "parley:again:zz:x:1:0",
        "parley:again:1",
        f"parley:no:1:{office.bob.id}:ff:0",
        "💥" * 99,
    ):
        click = await office.bob.presses(office.general, answer, "🔄", value=strange)
        assert click.is_acked

    assert await office.value("SELECT count(*) FROM inbox") == 1
    assert await office.value("SELECT count(*) FROM feedback") == 0


async def test_somebody_of_another_workspace_has_buttons_of_their_own(office: Scene) -> None:
    acme = office.slack.world.add_team("Acme")
    fred = Person(office.slack, "Fred", team=acme)
    office.slack.world.share(office.general, acme)
    office.model.play([Answer("Entry."), Answer("Entry again.")])
    await fred.mentions(office.general, "hello")
    await fred.hears(office.general)
    answer = fred.written(office.general)[0]

    assert "are for" in await whispered(await office.ann.presses(office.general, answer, "🔄"))
    await fred.presses(office.general, answer, "🔄")

    assert await fred.hears(office.general, 2) == ["Entry.", "Entry again."]
    assert await office.sql("SELECT DISTINCT platform_user_id FROM inbox") == [(f"{acme['id']}:{fred.id}",)]


async def test_a_person_whom_a_limit_refuses_asks_for_more_with_a_button(office: Scene) -> None:
    await office.ann.direct("hello")
    await office.until_value(1, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    await office.sql("UPDATE users SET token_budget_monthly = 0")
    await office.ann.direct("hello again")
    await office.until_value(2, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
    (refusal,) = [message for message in office.ann.written() if labels(message) == ["Ask for more"]]

    await office.ann.presses(office.ann.dm, refusal, "Ask for more")

    await office.until_value("asked", "SELECT status FROM budget_grants")
