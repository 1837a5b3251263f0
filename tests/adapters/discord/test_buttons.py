"""Buttons below answers: bound to who asked, expiring, and alive after a restart."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from adapters.chat.buttons import AGAIN, Button
from agent.people.pauses import PersonPaused
from shared.db.database import Address
from shared.errors import ConfirmationClosed
from shared.messages import Permission
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


async def test_a_yes_that_needs_an_admin_is_given_by_one_in_the_askers_place(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    office, carl = Office(approver=Permission.ADMIN), Person(server.discord, "Carl")
    carl.joins(server.guild)
    server.parley.app.tools.mcp.offer(office.tools())
    await server.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'discord')")
    server.model.play([calls(MAIL), Answer("Sent.")])
    await server.ann.asks("mail Bob", server.general)
    (text,) = await server.ann.hears(server.general)
    assert "needs the permission admin" in text
    question = server.ann.reads(server.general)[0]
    await (await server.bob.types("me", server.general)).answered()
    await server.sql(
        "UPDATE users SET permission_level = 'admin' FROM user_platform_links AS l WHERE l.user_id = users.id"
        " AND platform_user_id = :bob",
        bob=server.bob.id,
    )

    own = await (await server.ann.clicks(question, "Yes")).acked()
    strangers = await (await carl.clicks(question, "Yes")).acked()
    await server.ann.asks("yes", server.general)
    typed = (await server.ann.hears(server.general, 2))[1]
    assert own.text == strangers.text == typed
    assert own.text == "A yes to this needs the permission admin; somebody here who has it can answer in your place."
    assert (own.is_private, strangers.is_private, office.sent) == (True, True, [])

    await (await server.bob.clicks(question, "Yes")).acked()
    assert (await server.ann.hears(server.general, 3))[2] == "Sent."
    assert office.sent == [("bob", "See you at eight.")]
    rows = await server.sql(
        "SELECT confirmations.status, asked.platform_user_id, approver.platform_user_id FROM confirmations"
        " JOIN user_platform_links AS asked USING (user_id) JOIN turns ON turns.id = answered_turn_id"
        " JOIN user_platform_links AS approver ON approver.user_id = approved_by"
        " WHERE turns.user_id = confirmations.user_id"
    )
    assert rows == [("used", server.ann.id, server.bob.id)]


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


async def test_a_button_id_with_another_persons_turn_is_refused(server: Scene) -> None:
    server.model.play([Answer("For Ann.")])
    await server.ann.asks("my secret", server.general)
    await server.ann.hears(server.general)
    turn_id = await server.value("SELECT id FROM turns")

    forged = Button(AGAIN, turn_id, server.bob.id, int((datetime.now(UTC) + timedelta(days=1)).timestamp()))
    pressed = {"custom_id": forged.to_id(), "component_type": 2}
    interaction = await (await server.bob.presses(server.ann.reads(server.general)[0], pressed)).acked()

    assert interaction.text == "That answer is gone."
    assert await server.value("SELECT count(*) FROM inbox") == 1


async def ask_for_a_mail(server: Scene, *tools: Tool) -> Json:
    """Let Ann ask for a call that needs an admin's yes, and return the question."""
    await server.discord.until(lambda: server.discord.commands)
    server.parley.app.tools.mcp.offer(tools)
    await server.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'discord')")
    server.model.play([calls(MAIL), Answer("I have tried.")])
    await server.ann.asks("mail Bob", server.general)
    await server.ann.hears(server.general)
    await (await server.bob.types("me", server.general)).answered()
    await server.sql(MAKE_ADMIN, account=server.bob.id)
    return server.ann.reads(server.general)[0]


async def test_an_admin_who_is_paused_decides_nothing_for_others(server: Scene) -> None:
    office = Office(approver=Permission.ADMIN)
    question = await ask_for_a_mail(server, *office.tools())
    await server.sql("SELECT admin.pause_user('discord', :account)", account=server.bob.id)

    yes = await (await server.bob.clicks(question, "Yes")).acked()
    grant = await (await server.bob.types("grant", server.general)).answered()

    assert (yes.text, yes.is_private) == (str(PersonPaused()), True)
    assert grant == str(PersonPaused())
    await server.sql("SELECT admin.resume_user('discord', :account)", account=server.bob.id)
    await (await server.bob.clicks(question, "Yes")).acked()
    await server.ann.hears(server.general, 2)
    assert office.sent == [("bob", "See you at eight.")]


async def test_a_yes_of_another_person_gives_no_role_back_that_was_lost_since(server: Scene) -> None:
    office = Office(approver=Permission.ADMIN)
    send, *_ = office.tools()
    await server.discord.until(lambda: server.discord.commands)
    role = await make_role(server, "Keepers")
    give(server, server.ann, role)
    await server.sql(GRANT, server=server.guild["id"], role=role["id"])
    question = await ask_for_a_mail(server, replace(send, requires=Permission.ADMIN))
    give(server, server.ann)
    server.model.play([Answer("Hello.")])
    await server.ann.asks("hello", server.general)
    await server.ann.hears(server.general, 2)
    server.model.play([Answer("I may not.")])

    await (await server.bob.clicks(question, "Yes")).acked()

    await server.ann.hears(server.general, 3)
    assert office.sent == []
    assert await server.value("SELECT roles FROM member_roles WHERE platform_user_id = :ann", ann=server.ann.id) == []


async def test_an_admins_yes_to_what_was_edited_since_comes_too_late(server: Scene) -> None:
    office = Office(approver=Permission.ADMIN)
    question = dict(await ask_for_a_mail(server, *office.tools()))
    orders = server.discord.world.messages[server.general["id"]]
    order = orders[question["message_reference"]["message_id"]]

    await server.ann.edits(order, order["content"].replace("mail Bob", "mail nobody"))
    await server.discord.until(lambda: "edited" in str(server.bob.reads(server.general)[0]["components"]))
    (row,) = server.bob.reads(server.general)[0]["components"]
    await (await server.bob.clicks(question, "Yes")).acked()

    assert [button["label"] for button in row["components"]] == ["Answer the edited message"]
    assert (await server.ann.hears(server.general, 2))[1] == str(ConfirmationClosed())
    assert office.sent == []
