"""Slash commands and context menus: the same commands as everywhere, acknowledged in time."""

from sqlalchemy import text

from shared.db.database import Address
from tests.adapters.discord.conftest import Scene
from tests.standins.discord import Interaction
from tests.standins.discord.world import EPHEMERAL, SUPPRESS_EMBEDS, snowflake
from tests.standins.openai_api import Answer, OpenAIStub


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


async def test_a_command_is_acknowledged_and_answered_to_the_person_alone(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)

    interaction = await pond.ann.types("budget", pond.general)

    assert "5,000 tokens" in await interaction.answered()
    assert interaction.is_private
    assert interaction.acked_after is not None
    assert interaction.acked_after < 3
    assert pond.ann.reads(pond.general) == []


async def test_subcommands_and_their_arguments_reach_the_command(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes frogs"})]), Answer("Noted.")])
    await pond.ann.says("I like frogs", pond.ann.dm())
    await pond.ann.hears(pond.ann.dm())

    listing = await (await pond.ann.types("memory", pond.ann.dm(), sub="list")).answered()
    assert "Ann likes frogs" in listing
    memory_id = listing.splitlines()[1].partition(":")[0]
    forgotten = await pond.ann.types("memory", pond.ann.dm(), sub="forget", what=memory_id)
    assert await forgotten.answered() == f"I have forgotten memory {memory_id}."
    interaction = await pond.ann.types("schedule", pond.ann.dm(), sub="add", reminder="tomorrow at 9: frogs")
    assert "This needs the permission user" in await interaction.answered()


async def test_forgetting_is_confirmed_by_a_button_of_the_person_and_an_export_is_a_private_file(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes frogs"})]), Answer("Noted.")])
    await pond.ann.says("I like frogs", pond.ann.dm())
    await pond.until_value("delivered", "SELECT status FROM outbox")

    interaction = await pond.ann.types("memory", pond.ann.dm(), sub="forget", what="about frogs")
    assert "Ann likes frogs" in await interaction.answered()
    strangers = await (await pond.bob.clicks(interaction.messages[0], "Yes, do it")).acked()
    assert strangers.text == f"These buttons are for <@{pond.ann.id}>."
    confirmation = await pond.ann.clicks(interaction.messages[0], "Yes, do it")
    await pond.discord.until(lambda: "I have forgotten" in confirmation.text)
    assert interaction.messages[0]["components"] == []
    assert "nothing" in await (await pond.ann.types("memory", pond.ann.dm(), sub="list")).answered()

    exported = await pond.ann.types("export", pond.general)
    await exported.answered()
    assert exported.is_private
    (file,) = exported.messages[0]["attachments"]
    assert file["filename"].startswith("parley-archive-")
    assert pond.ann.reads(pond.general) == []


async def test_a_persona_is_set_by_admins_only(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    await pond.sql("INSERT INTO personas (name, system_prompt) VALUES ('frog', 'Croak.')")

    refusal = await (await pond.bob.types("persona", pond.general, set="frog")).answered()
    reset = await pond.bob.types("reset", pond.general)
    assert (await reset.answered(), reset.is_private) == ("This needs the permission user; yours is guest.", True)
    await pond.sql("UPDATE users SET permission_level = 'admin'")
    reply = await (await pond.bob.types("persona", pond.general, set="frog")).answered()
    reset = await pond.bob.types("reset", pond.general)
    assert (await reset.answered(), reset.is_private) == ("Nothing has been said here yet.", False)

    assert refusal == "This needs the permission admin; yours is guest."
    assert reply.startswith("frog answers in this channel")


async def test_ask_is_a_question_whose_answer_is_the_response(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.model.play([Answer("Green.")])

    notes = ("notes.txt", b"frogs are green")
    interaction = await pond.ann.types("ask", pond.general, question="what colour are frogs?", attached=notes)

    assert await interaction.answered() == "Green."
    assert interaction.messages[0]["flags"] & SUPPRESS_EMBEDS
    assert not interaction.is_private
    assert [post["content"] for post in pond.bob.reads(pond.general)] == ["Green."]
    assert await pond.value("SELECT content FROM inbox") == "what colour are frogs?"
    assert "notes.txt" in pond.prompt()
    assert await pond.sql("SELECT filename, mime_type, status FROM file_records") == [
        ("notes.txt", "text/plain", "stored")
    ]


async def test_a_slow_answer_to_ask_is_live_text_in_the_response(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    counted = "One two three four five six seven."
    pond.model.play([Answer(counted, chunk_chars=4, chunk_delay=0.3)])

    interaction = await pond.ann.types("ask", pond.general, question="count")
    await pond.until_value("delivered", "SELECT status FROM outbox")

    assert interaction.text == counted
    assert len(pond.ann.reads(pond.general)) == 1
    assert len(pond.discord.sent("PATCH", "/webhooks/")) >= 2


async def test_a_long_answer_to_ask_follows_up(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.model.play([Answer("word " * 700)])

    interaction = await pond.ann.types("ask", pond.general, question="talk")
    await pond.until_value("delivered", "SELECT status FROM outbox")

    assert len(interaction.messages) == 2
    assert " ".join(message["content"] for message in interaction.messages).split() == ["word"] * 700


async def test_an_answer_that_comes_after_the_response_has_expired_is_an_ordinary_message(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.model.play([Answer("Late.", delay=0.5)])

    interaction = await (await pond.ann.types("ask", pond.general, question="slow")).acked()
    interaction.began -= 1000
    await pond.until_value("delivered", "SELECT status FROM outbox")

    assert [post["content"] for post in pond.ann.reads(pond.general)] == ["Late."]


async def test_a_message_can_be_asked_about_from_its_menu(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.model.play([Answer("Because of the algae.")])
    message = await pond.bob.says("the pond is green", pond.general)

    opened_form = await (await pond.ann.picks("Ask about this", message)).acked()
    interaction = await pond.ann.fills(opened_form, text="why?")

    assert await interaction.answered() == "Because of the algae."
    assert "why?" in pond.prompt()
    assert "Bob: the pond is green" in pond.prompt()


async def test_a_conversation_can_be_summarised_from_a_message_on(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.model.play([Answer("They spoke of herons.")])
    await pond.bob.says("before", pond.general)
    first = await pond.bob.says("a heron came", pond.general)
    await pond.ann.says("it ate a frog", pond.general)

    interaction = await pond.ann.picks("Summarise from here", first)

    assert await interaction.answered() == "They spoke of herons."
    assert interaction.is_private
    prompt = pond.prompt()
    assert "Bob: a heron came" in prompt
    assert "Ann: it ate a frog" in prompt
    assert "before" not in prompt.replace("before this", "")


async def test_a_private_answer_stays_private_however_long_and_late_it_is(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    first = await pond.bob.says("a heron came", pond.general)
    pond.model.play([Answer("word " * 700), Answer("Shorter."), Answer("Late.", delay=0.5)])

    interaction = await pond.ann.picks("Summarise from here", first)
    await pond.until_value("delivered", "SELECT status FROM outbox")
    (result,) = interaction.messages
    assert (result["flags"] & EPHEMERAL, [attachment["filename"] for attachment in result["attachments"]]) == (
        EPHEMERAL,
        ["answer.md"],
    )
    again = await pond.ann.clicks(result, "🔄")
    await pond.until_value("delivered", "SELECT status FROM outbox WHERE turn_id = 2")
    await pond.discord.until(lambda: result["components"] == [])
    assert [(message["content"], message["flags"] & EPHEMERAL) for message in again.messages] == [
        ("Shorter.", EPHEMERAL)
    ]

    late = await (await pond.ann.picks("Summarise from here", first)).acked()
    late.began -= 1000
    assert await pond.ann.hears(pond.ann.dm()) == ["Late."]
    assert pond.ann.reads(pond.general) == []


async def test_a_question_about_an_unreadable_message_is_refused_with_the_reason(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.discord.world.forbid(pond.general, "read_message_history")
    first = await pond.bob.says("a heron came", pond.general)

    summary = await (await pond.ann.picks("Summarise from here", first)).answered()
    form = await (await pond.ann.picks("Ask about this", first)).acked()
    about = await (await pond.ann.fills(form, text="why?")).answered()

    assert summary == about
    assert summary.startswith("I can't read what was written there; I need the permission to read the history")
    assert await pond.value("SELECT count(*) FROM inbox") == 0


async def test_a_question_is_acknowledged_while_the_database_is_slow_and_answered_once(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    pond.model.play([Answer("After all.")])
    async with pond.parley.app.database.transaction() as session:
        await session.execute(text("LOCK TABLE inbox IN EXCLUSIVE MODE"))
        interaction = await (await pond.ann.types("ask", pond.general, question="are you there?")).acked()

    assert await interaction.answered() == "After all."
    assert await pond.value("SELECT count(*) FROM inbox") == 1


async def test_a_command_that_is_typed_as_a_message_is_answered_too(pond: Scene) -> None:
    await pond.ann.says("/budget", pond.ann.dm())
    assert "5,000 tokens" in (await pond.ann.hears(pond.ann.dm()))[0]

    await pond.bob.asks("/me", pond.general)
    assert "You are Bob" in (await pond.bob.hears(pond.bob.dm()))[0]
    assert pond.bob.reads(pond.general) == []
    assert await pond.value("SELECT count(*) FROM inbox") == 0


async def test_commands_say_where_they_may_be_used(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)

    assert {(tuple(command["contexts"]), tuple(command["integration_types"])) for command in pond.discord.commands} == {
        ((0, 1), (0,))
    }


async def test_no_private_memory_enters_a_conversation_of_several_people(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)
    secret = [("knowledge__remember", {"content": "Ann's secret is a pond"})]
    unknown = Answer("I don't know.")
    pond.model.play([Answer(tool_calls=secret), Answer("Noted."), unknown, unknown, Answer("A pond.")])
    await pond.ann.says("my secret is a pond", pond.ann.dm())
    await pond.ann.hears(pond.ann.dm())
    group = pond.discord.world.add_group("Friends", [pond.ann.user, pond.bob.user])

    interaction = await pond.ann.types("ask", group, question="what is my secret?")

    assert await interaction.answered() == "I don't know."
    assert "a pond" not in str(pond.model.requests[-1].body["messages"])
    # A kind of conversation that nobody knows yet.
    odd = Interaction(interaction.payload | {"id": snowflake(), "context": 9, "channel": group | {"type": 77}})
    odd.payload["token"] = odd.token
    pond.discord.interactions[odd.token] = odd
    await pond.discord.gateway.dispatch("INTERACTION_CREATE", odd.payload, None)
    assert await odd.answered() == "I don't know."
    assert await pond.sql("SELECT is_direct FROM inbox ORDER BY id") == [(True,), (False,), (False,)]
    # Alone with the agent, it is there.
    assert await (await pond.ann.types("ask", pond.ann.dm(), question="what is my secret?")).answered() == "A pond."
    assert "a pond" in str(pond.model.requests[-1].body["messages"])


async def test_a_credential_is_entered_in_a_form_and_typed_into_a_channel_it_is_not_kept(pond: Scene) -> None:
    await pond.discord.until(lambda: pond.discord.commands)

    opened_form = await (await pond.ann.types("credential", pond.general, sub="set", name="pms")).acked()
    (label,) = opened_form.form["components"]
    assert (label["type"], label["label"]) == (18, "The password or key for pms")
    assert label["component"]["style"] == 1
    submission = await pond.ann.fills(opened_form, text="lantern-4711-heron")
    assert (await submission.answered()).startswith("I keep your credential pms encrypted")
    short = await pond.ann.fills(opened_form, text="short")
    assert (await short.answered()).startswith("A credential has at least 8")
    listing = await pond.ann.types("credential", pond.general, sub="list")
    assert "pms (since" in await listing.answered()
    assert submission.is_private
    assert listing.is_private

    await pond.ann.asks("/credential set pms lantern-4711-heron", pond.general)
    (message,) = await pond.ann.hears(pond.ann.dm())
    assert message.startswith("I have not kept the credential that you wrote")
    assert not pond.model.requests
    assert "lantern" not in str(await pond.sql("SELECT content FROM inbox"))
