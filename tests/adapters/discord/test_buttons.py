"""Buttons below answers: bound to who asked, expiring, and alive after a restart."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from adapters.chat.buttons import AGAIN, Button
from agent.people.pauses import PersonPaused
from shared.db.database import Address
from shared.errors import ConfirmationClosed
from shared.permissions import Permission
from shared.tools import Tool
from tests.adapters.discord.conftest import Scene
from tests.adapters.discord.test_servers import give, make_role
from tests.standins.discord import Json, Person
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.office import MAIL, Office, calls

MAKE_ADMIN = """
UPDATE users SET permission_level = 'admin' FROM user_platform_links AS l
WHERE l.user_id = users.id AND platform_user_id = :account
"""
GRANT = "INSERT INTO role_grants (server, role, permission_level) VALUES (:server, :role, 'admin')"


async def test_a_yes_that_needs_an_admin_is_given_by_one_in_the_askers_place(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    office, carl = Office(approver=Permission.ADMIN), Person(pond.discord, "Carl")
    carl.joins(pond.guild)
    pond.parley.app.tools.mcp.offer(office.tools())
    await pond.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'discord')")
    pond.model.play([calls(MAIL), Answer("Sent.")])
    await pond.ann.asks("mail Bob", pond.general)
    (text,) = await pond.ann.hears(pond.general)
    assert "needs the permission admin" in text
    question = pond.ann.reads(pond.general)[0]
    await (await pond.bob.types("me", pond.general)).answered()
    await pond.sql(
        "UPDATE users SET permission_level = 'admin' FROM user_platform_links AS l WHERE l.user_id = users.id"
        " AND platform_user_id = :bob",
        bob=pond.bob.id,
    )

    own = await (await pond.ann.clicks(question, "Yes")).acked()
    strangers = await (await carl.clicks(question, "Yes")).acked()
    await pond.ann.asks("yes", pond.general)
    typed = (await pond.ann.hears(pond.general, 2))[1]
    assert own.text == strangers.text == typed
    assert own.text == "A yes to this needs the permission admin; somebody here who has it can answer in your place."
    assert (own.is_private, strangers.is_private, office.sent) == (True, True, [])

    await (await pond.bob.clicks(question, "Yes")).acked()
    assert (await pond.ann.hears(pond.general, 3))[2] == "Sent."
    assert office.sent == [("bob", "See you at eight.")]
    rows = await pond.sql(
        "SELECT confirmations.status, asked.platform_user_id, approver.platform_user_id FROM confirmations"
        " JOIN user_platform_links AS asked USING (user_id) JOIN turns ON turns.id = answered_turn_id"
        " JOIN user_platform_links AS approver ON approver.user_id = approved_by"
        " WHERE turns.user_id = confirmations.user_id"
    )
    assert rows == [("used", pond.ann.id, pond.bob.id)]


async def test_buttons_outlive_a_restart_and_then_expire(scene: Scene, address: Address, model: OpenAIStub) -> None:
    async with scene.opened(address, model):
        model.play([Answer("Before.")])
        await scene.ann.says("hello", scene.ann.dm())
        await scene.ann.hears(scene.ann.dm())
    await scene.discord.gateway.until_gone()
    answer = scene.ann.reads(scene.ann.dm())[0]

    async with scene.opened(address, model):
        model.play([Answer("After.")])
        old = Button(AGAIN, 1, scene.ann.id, int((datetime.now(UTC) - timedelta(days=1)).timestamp()))
        pressed = {"custom_id": old.to_id(), "component_type": 2}
        expired = await (await scene.ann.presses(answer, pressed)).acked()
        await (await scene.ann.clicks(answer, "🔄")).acked()
        assert await scene.ann.hears(scene.ann.dm(), 2) == ["Before.", "After."]
    assert expired.text == "These buttons have expired."


async def test_a_button_id_with_another_persons_turn_is_refused(pond: Scene) -> None:
    pond.model.play([Answer("For Ann.")])
    await pond.ann.asks("my secret", pond.general)
    await pond.ann.hears(pond.general)
    turn_id = await pond.value("SELECT id FROM turns")

    forged = Button(AGAIN, turn_id, pond.bob.id, int((datetime.now(UTC) + timedelta(days=1)).timestamp()))
    pressed = {"custom_id": forged.to_id(), "component_type": 2}
    interaction = await (await pond.bob.presses(pond.ann.reads(pond.general)[0], pressed)).acked()

    assert interaction.text == "That answer is gone."
    assert await pond.value("SELECT count(*) FROM inbox") == 1


async def ask_for_a_mail(pond: Scene, *tools: Tool) -> Json:
    """Let Ann ask for a call that needs an admin's yes, and return the question."""
    await pond.discord.until(lambda: pond.discord.commands)
    pond.parley.app.tools.mcp.offer(tools)
    await pond.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'discord')")
    pond.model.play([calls(MAIL), Answer("I have tried.")])
    await pond.ann.asks("mail Bob", pond.general)
    await pond.ann.hears(pond.general)
    await (await pond.bob.types("me", pond.general)).answered()
    await pond.sql(MAKE_ADMIN, account=pond.bob.id)
    return pond.ann.reads(pond.general)[0]


async def test_an_admin_who_is_paused_decides_nothing_for_others(pond: Scene) -> None:
    office = Office(approver=Permission.ADMIN)
    question = await ask_for_a_mail(pond, *office.tools())
    await pond.sql("SELECT admin.pause_user('discord', :account)", account=pond.bob.id)

    yes = await (await pond.bob.clicks(question, "Yes")).acked()
    grant = await (await pond.bob.types("grant", pond.general)).answered()

    assert (yes.text, yes.is_private) == (str(PersonPaused()), True)
    assert grant == str(PersonPaused())
    await pond.sql("SELECT admin.resume_user('discord', :account)", account=pond.bob.id)
    await (await pond.bob.clicks(question, "Yes")).acked()
    await pond.ann.hears(pond.general, 2)
    assert office.sent == [("bob", "See you at eight.")]


async def test_a_yes_of_another_person_gives_no_role_back_that_was_lost_since(pond: Scene) -> None:
    office = Office(approver=Permission.ADMIN)
    send, *_ = office.tools()
    await pond.discord.until(lambda: pond.discord.commands)
    role = await make_role(pond, "Keepers")
    give(pond, pond.ann, role)
    await pond.sql(GRANT, server=pond.guild["id"], role=role["id"])
    question = await ask_for_a_mail(pond, replace(send, requires=Permission.ADMIN))
    give(pond, pond.ann)
    pond.model.play([Answer("Hello.")])
    await pond.ann.asks("hello", pond.general)
    await pond.ann.hears(pond.general, 2)
    pond.model.play([Answer("I may not.")])

    await (await pond.bob.clicks(question, "Yes")).acked()

    await pond.ann.hears(pond.general, 3)
    assert office.sent == []
    assert await pond.value("SELECT roles FROM member_roles WHERE platform_user_id = :ann", ann=pond.ann.id) == []


async def test_an_admins_yes_to_what_was_edited_since_comes_too_late(pond: Scene) -> None:
    office = Office(approver=Permission.ADMIN)
    question = dict(await ask_for_a_mail(pond, *office.tools()))
    orders = pond.discord.world.messages[pond.general["id"]]
    order = orders[question["message_reference"]["message_id"]]

    await pond.ann.edits(order, order["content"].replace("mail Bob", "mail nobody"))
    await pond.discord.until(lambda: "edited" in str(pond.bob.reads(pond.general)[0]["components"]))
    (row,) = pond.bob.reads(pond.general)[0]["components"]
    await (await pond.bob.clicks(question, "Yes")).acked()

    assert [button["label"] for button in row["components"]] == ["Answer the edited message"]
    assert (await pond.ann.hears(pond.general, 2))[1] == str(ConfirmationClosed())
    assert office.sent == []
