"""Slash commands and context menus: the same commands as everywhere, acknowledged in time."""

from sqlalchemy import text

from shared.db.database import Address
from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Interaction
from tests.standins.discord.world import EPHEMERAL, SUPPRESS_EMBEDS, snowflake
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.login import find_link, open_by_hand, open_page


async def test_commands_are_registered_once_per_change_and_not_per_start(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    for _ in range(2):
        async with scene.opened(address, model):
            await scene.until_value(1, "SELECT count(*) FROM bots WHERE commands_hash IS NOT NULL")
        await scene.discord.gateway.until_gone()
    assert len(scene.discord.sent("PUT", "/commands")) == 1

    async with scene.opened(address, model, listens=False):
        await scene.sql("UPDATE bots SET commands_hash = 'of another release'")
    async with scene.opened(address, model):
        await scene.discord.until(lambda: len(scene.discord.sent("PUT", "/commands")) == 2)
    names = {command["name"] for command in scene.discord.commands}
    assert names >= {"ask", "stop", "reset", "schedule", "memory", "budget", "persona", "me", "help", "Ask about this"}
    assert "quit" not in names


async def test_a_command_is_acknowledged_and_answered_to_the_person_alone(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)

    interaction = await server.ann.types("budget", server.general)

    assert "5,000 tokens" in await interaction.answered()
    assert interaction.is_private
    assert interaction.acked_after is not None
    assert interaction.acked_after < 3
    assert server.ann.reads(server.general) == []


async def test_subcommands_and_their_arguments_reach_the_command(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes bikes"})]), Answer("Noted.")])
    await server.ann.says("I like bikes", server.ann.dm())
    await server.ann.hears(server.ann.dm())

    listing = await (await server.ann.types("memory", server.ann.dm(), sub="list")).answered()
    assert "Ann likes bikes" in listing
    memory_id = listing.splitlines()[1].partition(":")[0]
    forgotten = await server.ann.types("memory", server.ann.dm(), sub="forget", what=memory_id)
    assert await forgotten.answered() == f"I have forgotten memory {memory_id}."
    interaction = await server.ann.types("schedule", server.ann.dm(), sub="add", reminder="tomorrow at 9: bikes")
    assert "This needs the permission user" in await interaction.answered()


async def test_forgetting_is_confirmed_by_a_button_of_the_person_and_an_export_is_a_private_file(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes bikes"})]), Answer("Noted.")])
    await server.ann.says("I like bikes", server.ann.dm())
    await server.until_value("delivered", "SELECT status FROM outbox")

    interaction = await server.ann.types("memory", server.ann.dm(), sub="forget", what="about bikes")
    assert "Ann likes bikes" in await interaction.answered()
    strangers = await (await server.bob.clicks(interaction.messages[0], "Yes, do it")).acked()
    assert strangers.text == f"These buttons are for <@{server.ann.id}>."
    confirmation = await server.ann.clicks(interaction.messages[0], "Yes, do it")
    await server.discord.until(lambda: "I have forgotten" in confirmation.text)
    assert interaction.messages[0]["components"] == []
    assert "nothing" in await (await server.ann.types("memory", server.ann.dm(), sub="list")).answered()

    exported = await server.ann.types("export", server.general)
    await exported.answered()
    assert exported.is_private
    (file,) = exported.messages[0]["attachments"]
    assert file["filename"].startswith("parley-archive-")
    assert server.ann.reads(server.general) == []


async def test_a_persona_is_set_by_admins_only(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    await server.sql("INSERT INTO personas (name, system_prompt) VALUES ('bike', 'Entry.')")

    refusal = await (await server.bob.types("persona", server.general, set="bike")).answered()
    reset = await server.bob.types("reset", server.general)
    assert (await reset.answered(), reset.is_private) == ("This needs the permission user; yours is guest.", True)
    await server.sql("UPDATE users SET permission_level = 'admin'")
    reply = await (await server.bob.types("persona", server.general, set="bike")).answered()
    reset = await server.bob.types("reset", server.general)
    assert (await reset.answered(), reset.is_private) == ("Nothing has been said here yet.", False)

    assert refusal == "This needs the permission admin; yours is guest."
    assert reply.startswith("bike answers in this channel")


async def test_ask_is_a_question_whose_answer_is_the_response(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer("Green.")])

    notes = ("notes.txt", b"bikes are green")
    interaction = await server.ann.types("ask", server.general, question="what colour are bikes?", attached=notes)

    assert await interaction.answered() == "Green."
    assert interaction.messages[0]["flags"] & SUPPRESS_EMBEDS
    assert not interaction.is_private
    assert [post["content"] for post in server.bob.reads(server.general)] == ["Green."]
    assert await server.value("SELECT content FROM inbox") == "what colour are bikes?"
    assert "notes.txt" in server.prompt()
    assert await server.sql("SELECT filename, mime_type, status FROM file_records") == [
        ("notes.txt", "text/plain", "stored")
    ]


async def test_a_slow_answer_to_ask_is_live_text_in_the_response(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    counted = "One two three four five six seven."
    server.model.play([Answer(counted, chunk_chars=4, chunk_delay=0.3)])

    interaction = await server.ann.types("ask", server.general, question="count")
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert interaction.text == counted
    assert len(server.ann.reads(server.general)) == 1
    assert len(server.discord.sent("PATCH", "/webhooks/")) >= 2


async def test_a_long_answer_to_ask_follows_up(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer("word " * 700)])

    interaction = await server.ann.types("ask", server.general, question="talk")
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert len(interaction.messages) == 2
    assert " ".join(message["content"] for message in interaction.messages).split() == ["word"] * 700


async def test_an_answer_that_comes_after_the_response_has_expired_is_an_ordinary_message(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer("Late.", delay=0.5)])

    interaction = await (await server.ann.types("ask", server.general, question="slow")).acked()
    interaction.began -= 1000
    await server.until_value("delivered", "SELECT status FROM outbox")

    assert [post["content"] for post in server.ann.reads(server.general)] == ["Late."]


async def test_a_message_can_be_asked_about_from_its_menu(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer("Because of the algae.")])
    message = await server.bob.says("the door is green", server.general)

    opened_form = await (await server.ann.picks("Ask about this", message)).acked()
    interaction = await server.ann.fills(opened_form, text="why?")

    assert await interaction.answered() == "Because of the algae."
    assert "why?" in server.prompt()
    assert "Bob: the door is green" in server.prompt()


async def test_a_conversation_can_be_summarised_from_a_message_on(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer("They spoke of wagons.")])
    await server.bob.says("before", server.general)
    first = await server.bob.says("a wagon came", server.general)
    await server.ann.says("it ate a bike", server.general)

    interaction = await server.ann.picks("Summarise from here", first)

    assert await interaction.answered() == "They spoke of wagons."
    assert interaction.is_private
    prompt = server.prompt()
    assert "Bob: a wagon came" in prompt
    assert "Ann: it ate a bike" in prompt
    assert "before" not in prompt.replace("before this", "")


async def test_a_private_answer_stays_private_however_long_and_late_it_is(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    first = await server.bob.says("a wagon came", server.general)
    server.model.play([Answer("word " * 700), Answer("Shorter."), Answer("Late.", delay=0.5)])

    interaction = await server.ann.picks("Summarise from here", first)
    await server.until_value("delivered", "SELECT status FROM outbox")
    (result,) = interaction.messages
    assert (result["flags"] & EPHEMERAL, [attachment["filename"] for attachment in result["attachments"]]) == (
        EPHEMERAL,
        ["answer.md"],
    )
    again = await server.ann.clicks(result, "🔄")
    await server.until_value("delivered", "SELECT status FROM outbox WHERE turn_id = 2")
    await server.discord.until(lambda: result["components"] == [])
    assert [(message["content"], message["flags"] & EPHEMERAL) for message in again.messages] == [
        ("Shorter.", EPHEMERAL)
    ]

    late = await (await server.ann.picks("Summarise from here", first)).acked()
    late.began -= 1000
    assert await server.ann.hears(server.ann.dm()) == ["Late."]
    assert server.ann.reads(server.general) == []


async def test_a_question_about_an_unreadable_message_is_refused_with_the_reason(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.discord.world.forbid(server.general, "read_message_history")
    first = await server.bob.says("a wagon came", server.general)

    summary = await (await server.ann.picks("Summarise from here", first)).answered()
    form = await (await server.ann.picks("Ask about this", first)).acked()
    about = await (await server.ann.fills(form, text="why?")).answered()

    assert summary == about
    assert summary.startswith("I can't read what was written there; I need the permission to read the history")
    assert await server.value("SELECT count(*) FROM inbox") == 0


async def test_a_question_is_acknowledged_while_the_database_is_slow_and_answered_once(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    server.model.play([Answer("After all.")])
    async with server.parley.app.database.transaction() as session:
        await session.execute(text("LOCK TABLE inbox IN EXCLUSIVE MODE"))
        interaction = await (await server.ann.types("ask", server.general, question="are you there?")).acked()

    assert await interaction.answered() == "After all."
    assert await server.value("SELECT count(*) FROM inbox") == 1


async def test_a_command_that_is_typed_as_a_message_is_answered_too(server: Scene) -> None:
    await server.ann.says("/budget", server.ann.dm())
    assert "5,000 tokens" in (await server.ann.hears(server.ann.dm()))[0]

    await server.bob.asks("/me", server.general)
    assert "You are Bob" in (await server.bob.hears(server.bob.dm()))[0]
    assert server.bob.reads(server.general) == []
    assert await server.value("SELECT count(*) FROM jobs") == 0
    assert await server.sql("SELECT status, content FROM inbox") == [("answered", "")] * 2


async def test_commands_say_where_they_may_be_used(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)

    assert {
        (tuple(command["contexts"]), tuple(command["integration_types"])) for command in server.discord.commands
    } == {((0, 1), (0,))}


async def test_no_private_memory_enters_a_conversation_of_several_people(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    secret = [("knowledge__remember", {"content": "Ann's secret is a door"})]
    unknown = Answer("I don't know.")
    server.model.play([Answer(tool_calls=secret), Answer("Noted."), unknown, unknown, Answer("A door.")])
    await server.ann.says("my secret is a door", server.ann.dm())
    await server.ann.hears(server.ann.dm())
    group = server.discord.world.add_group("Friends", [server.ann.user, server.bob.user])

    interaction = await server.ann.types("ask", group, question="what is my secret?")

    assert await interaction.answered() == "I don't know."
    assert "a door" not in str(server.model.requests[-1].body["messages"])
    # A kind of conversation that nobody knows yet.
    odd = Interaction(interaction.payload | {"id": snowflake(), "context": 9, "channel": group | {"type": 77}})
    odd.payload["token"] = odd.token
    server.discord.interactions[odd.token] = odd
    await server.discord.gateway.dispatch("INTERACTION_CREATE", odd.payload, None)
    assert await odd.answered() == "I don't know."
    assert await server.sql("SELECT is_direct FROM inbox ORDER BY id") == [(True,), (False,), (False,)]
    # Alone with the agent, it is there.
    assert await (await server.ann.types("ask", server.ann.dm(), question="what is my secret?")).answered() == "A door."
    assert "a door" in str(server.model.requests[-1].body["messages"])


async def test_a_credential_is_entered_in_a_form_and_typed_into_a_channel_it_is_not_kept(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)

    opened_form = await (await server.ann.types("credential", server.general, sub="set", name="pms")).acked()
    (label,) = opened_form.form["components"]
    assert (label["type"], label["label"]) == (18, "The password or key for pms")
    assert label["component"]["style"] == 1
    submission = await server.ann.fills(opened_form, text="lantern-4711-wagon")
    assert (await submission.answered()).startswith("I keep your credential pms encrypted")
    short = await server.ann.fills(opened_form, text="short")
    assert (await short.answered()).startswith("A credential has at least 8")
    listing = await server.ann.types("credential", server.general, sub="list")
    assert "pms (since" in await listing.answered()
    assert submission.is_private
    assert listing.is_private

    for mark in ("", "\u200b"):
        await server.ann.asks(f"{mark}/credential set pms lantern-4711-wagon", server.general)
    messages = await server.ann.hears(server.ann.dm(), count=2)
    sentence = f"About <#{server.general['id']}>\n\nI have not kept the credential that you wrote"
    assert all(message.startswith(sentence) for message in messages)
    assert not server.model.requests
    assert "lantern" not in str(await server.sql("SELECT content FROM inbox"))


async def test_login_sends_a_link_to_the_person_alone_that_opens_the_page_as_them(server: Scene) -> None:
    await server.discord.until(lambda: server.discord.commands)
    interaction = await server.ann.types("login", server.general)
    reply = await interaction.answered()
    typed = await server.bob.says("<@{bot}> /login".replace("{bot}", server.discord.world.bot["id"]), server.general)
    await server.discord.until(lambda: server.bob.reads(server.bob.dm()))
    async with open_page(server.parley) as site:
        entered = await open_by_hand(find_link(site, reply))
        own = find_link(site, server.bob.reads(server.bob.dm())[-1]["content"])
        # Ann sends Bob's link on to herself, in a browser where she is signed in.
        forwarded = await open_by_hand(own, entered.cookies)
        used = await open_by_hand(find_link(site, reply))

    assert interaction.is_private
    assert [post["content"] for post in server.ann.reads(server.general) if post["id"] != typed["id"]] == []
    assert (entered.status_code, used.status_code) == (200, 401)
    assert "You are signed in as Ann. This link opens Parley as Bob." in forwarded.text
    assert await server.sql(
        "SELECT array_agg(platform ORDER BY platform) FROM user_platform_links GROUP BY user_id ORDER BY user_id"
    ) == [(["discord", "web"],), (["discord"],)]
    for _ in range(4):
        assert "key=" in await (await server.ann.types("login", server.general)).answered()
    assert "too many links" in await (await server.ann.types("login", server.general)).answered()
