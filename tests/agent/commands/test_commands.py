"""Commands that people give in a chat."""

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agent.commands import CommandReply, answer, list_commands
from shared.messages import Place
from shared.messages import Sender as Writer
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley

ANN = Writer("test", "ann", "Ann")
BOB = Writer("test", "bob", "Bob")
DIRECT = Place("test", None, "dm-ann", is_direct=True)
CHANNEL = Place("test", "guild", "general")


async def ask(parley: Parley, text: str, sender: Writer = ANN, place: Place = DIRECT) -> str:
    reply = await answer(parley.app, sender, place, text)
    assert reply is not None
    return reply.text


async def promote(parley: Parley, sender: Writer, level: str) -> None:
    await parley.sql(
        "UPDATE users SET permission_level = :level WHERE id ="
        " (SELECT user_id FROM user_platform_links WHERE platform_user_id = :who)",
        level=level,
        who=sender.platform_user_id,
    )


@pytest.mark.parametrize(
    "text", ["hello", "/path/to/file", "/etc/hosts is what I mean", "/ 3 + 4", "and /help", "//", "/", "/1", ""]
)
async def test_what_is_no_command_belongs_to_the_agent(parley: Parley, text: str) -> None:
    assert await answer(parley.app, ANN, DIRECT, text) is None


async def test_an_unknown_command_gets_one_sentence_with_the_nearest_one(parley: Parley) -> None:
    assert await ask(parley, "/budgte now") == "There is no command budgte; did you mean /budget? /help lists them all."
    assert await ask(parley, "/xyzzyx") == "There is no command xyzzyx; /help lists them all."


async def test_help_lists_what_the_platform_has(parley: Parley) -> None:
    lines = (await ask(parley, "  /HELP  ")).splitlines()

    assert [line.split()[0] for line in lines[1:]] == [
        "/budget", "/confirm", "/credential", "/erase", "/export", "/help", "/login", "/me", "/memory", "/more",
        "/persona", "/reset", "/schedule", "/stop", "/why",
    ]  # fmt: skip
    assert all(" - " in line and line.endswith(".") for line in lines[1:])
    assert await ask(parley, "/help /stop") == lines[-2]
    assert await ask(parley, "/help quit") == "There is no command quit; /help lists them all."


async def test_every_command_says_what_it_is_for() -> None:
    for command in list_commands("terminal"):
        assert command.summary.endswith(".")
        assert command.usage.startswith(f"/{command.name}")


async def test_quit_ends_only_a_terminal(parley: Parley) -> None:
    terminal = Place("terminal", None, "ann", is_direct=True)

    assert await answer(parley.app, Writer("terminal", "ann"), terminal, "/quit") == CommandReply(
        "Goodbye.", is_private=True, quit=True
    )
    assert "no command quit" in await ask(parley, "/quit")


async def test_commands_cost_no_tokens_and_ask_no_model(parley: Parley, model: OpenAIStub) -> None:
    for text in ("/help", "/budget", "/me", "/memory", "/persona", "/reset", "/schedule", "/stop", "/nothing"):
        await ask(parley, text)

    assert not model.requests
    assert await parley.value("SELECT count(*) FROM token_logs") == 0


async def test_budget_tells_what_is_used_left_and_when_it_renews(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql("UPDATE users SET tokens_used_this_month = 1234, tokens_reserved = 600")
    renews = await parley.value("SELECT budget_reset_at FROM users")

    assert await ask(parley, "/budget") == (
        "You have used 1,234 of 5,000 tokens; 3,766 are left. Running requests hold 600 tokens. "
        f"The budget renews on {renews:%d %B %Y}."
    )


async def test_budget_counts_a_period_that_has_ended_as_over(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql("UPDATE users SET tokens_used_this_month = 5000, budget_reset_at = now() - interval '1 day'")
    renews = await parley.value("SELECT budget_reset_at + interval '30 days' FROM users")

    output = await ask(parley, "/budget")

    assert output == f"You have used 0 of 5,000 tokens; 5,000 are left. The budget renews on {renews:%d %B %Y}."


async def test_budget_without_a_limit_is_unlimited(parley: Parley) -> None:
    await parley.ask("hello")
    await parley.sql("UPDATE users SET token_budget_monthly = NULL, tokens_used_this_month = 7")

    assert await ask(parley, "/budget") == "Your budget is unlimited; you have used 7 tokens in this period."


async def test_me_names_the_user_the_permission_and_the_accounts(parley: Parley) -> None:
    assert "You are Ann (user 1) with the permission guest. Linked accounts: test Ann." in await ask(parley, "/me")

    await promote(parley, ANN, "admin")
    await parley.sql(
        "INSERT INTO user_platform_links (user_id, platform, platform_user_id) VALUES (1, 'discord', '42')"
    )

    assert "permission admin. Linked accounts: test Ann, discord 42." in await ask(parley, "/me")


async def test_reset_hides_what_was_said_before_and_deletes_nothing(parley: Parley, model: OpenAIStub) -> None:
    await parley.ask("my name is Ann")
    await parley.sql("UPDATE conversations SET summary = 'they talked', is_summarized = true")

    output = await ask(parley, "/reset")
    await parley.ask("who am I?")

    assert "afresh" in output
    assert "my name is Ann" not in str(model.requests[-1].body["messages"])
    assert "they talked" not in str(model.requests[-1].body["messages"])
    assert await parley.value("SELECT count(*) FROM messages WHERE content = 'my name is Ann'") == 1
    await parley.ask("and now?")
    assert "who am I?" in str(model.requests[-1].body["messages"])


async def test_reset_of_a_silent_place_says_so(parley: Parley) -> None:
    assert await ask(parley, "/reset") == "Nothing has been said here yet."


async def test_a_guest_does_not_reset_a_channel_that_others_use(parley: Parley) -> None:
    await parley.ask("hello", server="guild")

    assert await ask(parley, "/reset", place=CHANNEL) == "This needs the permission user; yours is guest."
    await promote(parley, ANN, "user")
    assert "afresh" in await ask(parley, "/reset", place=CHANNEL)


async def test_stop_ends_one_s_own_running_answer(parley: Parley, model: OpenAIStub) -> None:
    model.play([Answer("too late", delay=30)])
    accepted = await parley.accept("a long story", server="guild")
    await model.until(1)

    assert await ask(parley, "/stop", BOB, CHANNEL) == "Nothing of yours is running here."
    assert await ask(parley, "/stop", ANN, CHANNEL) == "Stopping."
    assert (await parley.app.events.response(accepted.inbox_id)).error == "stopped"
    assert await ask(parley, "/stop", ANN, CHANNEL) == "Nothing of yours is running here."


async def test_an_admin_stops_anybody_s_answer(parley: Parley, model: OpenAIStub) -> None:
    await ask(parley, "/me", BOB)
    await promote(parley, BOB, "admin")
    model.play([Answer("too late", delay=30)])
    accepted = await parley.accept("a long story", server="guild")
    await model.until(1)

    assert await ask(parley, "/stop", BOB, CHANNEL) == "Stopping."
    assert (await parley.app.events.response(accepted.inbox_id)).error == "stopped"


async def remembered(parley: Parley, sender: Writer, place: Place, *facts: str) -> list[int]:
    await ask(parley, "/me", sender)
    user_id = await parley.value(
        "SELECT user_id FROM user_platform_links WHERE platform_user_id = :who", who=sender.platform_user_id
    )
    memories: Any = parley.app.memory.of_user(user_id, place, None)
    return [(await memories.remember(fact)).id for fact in facts]


async def test_memories_are_listed_and_forgotten_by_their_owner_alone(parley: Parley) -> None:
    first, second = await remembered(parley, ANN, DIRECT, "likes tea", "has a dog")
    others = Place("test", None, "dm-bob", is_direct=True)

    listing = await ask(parley, "/memory list")
    assert f"{first}: likes tea" in listing
    assert f"{second}: has a dog" in listing
    assert "nothing" in await ask(parley, "/memory", BOB, others)
    assert f"no memory with the id {first}" in await ask(parley, f"/memory forget {first}", BOB, others)

    assert await ask(parley, f"/memory forget #{first}") == f"I have forgotten memory {first}."
    assert "tea" not in await ask(parley, "/memory list")
    assert f"no memory with the id {first}" in await ask(parley, f"/memory forget {first}")


async def test_a_channel_does_not_show_what_was_said_in_private(parley: Parley) -> None:
    await remembered(parley, ANN, DIRECT, "likes tea")

    assert "nothing" in await ask(parley, "/memory list", ANN, CHANNEL)


async def test_remembering_is_paused_and_resumed_in_a_conversation_and_everywhere(parley: Parley) -> None:
    paused = (
        "SELECT (SELECT bool_or(is_memory_paused) FROM conversations), (SELECT bool_or(is_memory_paused) FROM users)"
    )
    assert "no conversation here" in await ask(parley, "/memory pause")
    await parley.ask("hello", platform=ANN.platform, user=ANN.platform_user_id, channel=DIRECT.channel)

    assert "nothing of this conversation" in await ask(parley, "/memory pause")
    assert tuple((await parley.sql(paused))[0]) == (True, False)
    assert "again" in await ask(parley, "/memory resume")
    assert "nothing of what you say anywhere" in await ask(parley, "/memory pause everywhere")
    assert tuple((await parley.sql(paused))[0]) == (False, True)
    assert "permission admin" in await ask(parley, "/memory pause", ANN, CHANNEL)


async def test_a_memory_command_that_makes_no_sense_gets_its_usage(parley: Parley) -> None:
    for text in ("/memory forget", "/memory forget tea", "/memory drop 1", "/memory forget about"):
        usage = "Write /memory list, /memory forget ID with an id from that list,"
        assert (await ask(parley, text)).startswith(usage), text


@pytest.mark.parametrize("digits", ["1" + "0" * 30, "9" * 5000])
async def test_a_huge_memory_id_is_a_missing_one(parley: Parley, digits: str) -> None:
    assert len(text := await ask(parley, f"/memory forget {digits}")) < 100
    assert "no memory" in text


async def test_persona_shows_who_answers_here(parley: Parley) -> None:
    assert (await ask(parley, "/persona")).startswith("Parley answers here (the built-in persona)")
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, is_default, allowed_modules, default_model)"
        " VALUES ('Pirate', 'Arr.', true, '[\"knowledge\"]', 'openai/small')"
    )

    output = await ask(parley, "/persona")

    assert (
        output
        == "Pirate answers here (a persona of this installation), asks openai/small first and may use the modules "
        "knowledge."
    )


async def test_an_admin_binds_a_persona_to_a_channel_and_it_answers_there(parley: Parley, model: OpenAIStub) -> None:
    await parley.sql("INSERT INTO personas (name, system_prompt) VALUES ('Old Cook', 'You cook.'), ('Pirate', 'Arr.')")
    await ask(parley, "/me")
    await promote(parley, ANN, "admin")

    assert await ask(parley, "/persona set Old Cook", place=CHANNEL) == (
        "Old Cook answers in this channel from the next message on."
    )
    await parley.ask("hello", server="guild")
    assert "You cook." in str(model.requests[-1].body["messages"][0])

    await ask(parley, "/persona set Pirate", place=CHANNEL)
    assert (await ask(parley, "/persona", place=CHANNEL)).startswith("Pirate answers here")
    assert (await ask(parley, "/persona", place=DIRECT)).startswith("Parley answers here")
    moved = await ask(parley, "/persona set Pirate", place=DIRECT)
    assert moved.endswith("It no longer answers in test / guild / general.")


async def test_only_admins_bind_personas(parley: Parley) -> None:
    await parley.sql("INSERT INTO personas (name, system_prompt) VALUES ('Pirate', 'Arr.')")

    assert await ask(parley, "/persona set Pirate") == "This needs the permission admin; yours is guest."
    assert await parley.value("SELECT platform FROM personas") is None


async def test_an_unknown_persona_is_answered_with_those_there_are(parley: Parley) -> None:
    await parley.sql("INSERT INTO personas (name, system_prompt) VALUES ('Pirate', 'Arr.')")
    await ask(parley, "/me")
    await promote(parley, ANN, "admin")

    assert await ask(parley, "/persona set Cook") == "There is no persona 'Cook'; there are: Pirate."
    assert "/persona set NAME" in await ask(parley, "/persona sit Cook")


async def test_admin_says_where_its_forms_are_where_there_are_none(parley: Parley) -> None:
    assert await ask(parley, "/admin pause") == "This needs the permission admin; yours is guest."
    await parley.sql("UPDATE users SET permission_level = 'admin'")
    assert "All of it is at /admin of the web page" in await ask(parley, "/admin")
    assert "Write /admin [pause|limit|grant|mode|persona|undo]." in await ask(parley, "/admin fly")
    assert await ask(parley, "/refuse") == await ask(parley, "/grant") == "Nobody asks for more just now."


async def test_schedule_lists_adds_pauses_and_cancels_the_persons_own_jobs(parley: Parley) -> None:
    await ask(parley, "/me", BOB)
    assert "This needs the permission user" in await ask(parley, "/schedule add tomorrow at 9: Tea")
    await parley.sql("UPDATE users SET permission_level = 'user', time_zone = 'Europe/Berlin'")

    assert "I don't understand" in await ask(parley, "/schedule add xyzzy: Tea")
    assert "Write /schedule list" in await ask(parley, "/schedule add tomorrow at 9")
    assert "next" in await ask(parley, "/schedule add in 10 days: Meeting", place=CHANNEL)
    assert await ask(parley, "/schedule add every Monday at 09:30: Tea: green") == (
        f"Scheduled: 2: Tea: green (At 09:30 on Monday (Europe/Berlin), next {await next_due(parley)})"
    )
    listing = await ask(parley, "/schedule")
    assert [line.split()[0] for line in listing.splitlines()] == ["Scheduled:", "2:", "1:"]
    assert "Tea" not in await ask(parley, "/schedule list", place=CHANNEL)
    assert "Nothing is scheduled here." in await ask(parley, "/schedule list", BOB)
    for verb in ("cancel", "pause", "resume"):
        answer = await ask(parley, f"/schedule {verb} 2", BOB)
        assert answer == "You have no such job here; /schedule list shows them."
        assert await ask(parley, f"/schedule {verb} 99") == answer
    assert await ask(parley, "/schedule pause 2") == "Paused: Tea: green"
    assert "(At 09:30 on Monday (Europe/Berlin), paused)" in await ask(parley, "/schedule")
    assert "next" in await ask(parley, "/schedule resume #2")
    assert await ask(parley, "/schedule cancel 2") == "Cancelled: Tea: green (`/schedule resume 2` takes that back)"
    assert "Tea" not in await ask(parley, "/schedule")
    assert await parley.value("SELECT array_agg(adapter ORDER BY id) FROM scheduled_jobs") == ["test", "test"]


async def next_due(parley: Parley) -> str:
    due = await parley.value("SELECT next_due_at FROM scheduled_jobs WHERE id = 2")
    return f"{due.astimezone(ZoneInfo('Europe/Berlin')):%a %d %b %Y %H:%M}"
