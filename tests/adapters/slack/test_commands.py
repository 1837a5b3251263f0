"""`/parley …` and the message shortcut: the same commands as everywhere, acknowledged in time."""

from agent.commands.registry import all_commands
from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Interaction, Json, Person
from tests.support.login import find_link, open_by_hand, open_page
from tests.support.slack_transports import opened_by_http


async def answer_to(scene: Scene, person: Person, text: str, channel: Json | None = None) -> str:
    """Return what a command answers."""
    return (await (await person.slash(channel or scene.general, "/parley", text)).answered())[-1]


def was_private(interaction: Interaction) -> bool:
    return [response["response_type"] for response in interaction.responses] == ["ephemeral"]


async def test_a_command_is_acknowledged_and_answered_to_the_person_alone(office: Scene) -> None:
    interaction = await office.ann.slash(office.general, "/parley", "budget")

    assert "5,000 tokens" in (await interaction.answered())[0]
    assert was_private(interaction)
    assert interaction.envelope is not None
    assert interaction.envelope.seconds is not None
    assert interaction.envelope.seconds < 3
    assert office.ann.reads(office.general) == []
    assert "of nothing" not in await answer_to(office, office.ann, "  BUDGET  ")


async def test_help_lists_every_command_as_it_is_typed_on_slack(office: Scene) -> None:
    listing = await answer_to(office, office.ann, "")

    for all_command in all_commands():
        line = f"/parley {all_command.usage.removeprefix('/')} - "
        assert (line in listing) == (all_command.is_known_on("slack") and not all_command.requires), all_command.usage
    assert "/parley ask QUESTION" in listing
    assert (await answer_to(office, office.ann, "help budget")).startswith("/parley budget - ")


async def test_what_is_no_command_is_answered_with_the_nearest_one(office: Scene) -> None:
    assert (await answer_to(office, office.ann, "budgte")).startswith(
        "There is no command budgte; did you mean /parley budget?"
    )
    for strange in ("what is a bike?", "💥", "<@U1> & <!channel>", "ask", "a" * 5000, "/", "budget\x00"):
        assert await answer_to(office, office.ann, strange)
    assert office.refusals() == []
    assert await office.value("SELECT count(*) FROM inbox WHERE content <> '' OR status <> 'answered'") == 0


async def test_memories_are_listed_and_forgotten_with_their_ids(office: Scene) -> None:
    office.model.play(
        [Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes <bikes>"})]), Answer("Noted.")]
    )
    await office.ann.direct("I like bikes")
    await office.ann.hears()

    listing = await answer_to(office, office.ann, "memory list", office.ann.dm)
    assert "Ann likes &lt;bikes&gt;" in listing
    assert "nothing about you here" in await answer_to(office, office.ann, "memory list")
    memory_id = listing.splitlines()[1].partition(":")[0]
    assert await answer_to(office, office.ann, f"memory forget {memory_id}", office.ann.dm) == (
        f"I have forgotten memory {memory_id}."
    )


async def test_forgetting_is_confirmed_by_a_button_and_an_export_is_sent_directly(office: Scene) -> None:
    office.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes bikes"})]), Answer("Noted.")])
    await office.ann.direct("I like bikes")
    await office.until_value("delivered", "SELECT status FROM outbox")

    interaction = await office.ann.slash(office.ann.dm, "/parley", "memory forget about bikes")
    assert "Ann likes bikes" in (await interaction.answered())[0]
    whisper = office.ann.whispers(office.ann.dm)[-1]
    confirmation = await office.ann.presses(office.ann.dm, whisper, "Yes, do it")
    assert "I have forgotten" in (await confirmation.answered())[0]
    assert "actions" not in [block["type"] for block in whisper["blocks"]]
    assert "nothing about you here" in await answer_to(office, office.ann, "memory list")

    exported = await office.ann.slash(office.general, "/parley", "export")
    assert "The file is in our direct messages." in (await exported.answered())[0]
    assert was_private(exported)
    (file,) = next(message["files"] for message in office.ann.written() if message.get("files"))
    assert file["name"].startswith("parley-archive-")
    assert office.ann.reads(office.general) == []
    assert office.refusals() == []


async def test_a_direct_message_between_people_shows_nothing_private(office: Scene) -> None:
    office.model.play([Answer(tool_calls=[("knowledge__remember", {"content": "Ann likes bikes"})]), Answer("Noted.")])
    await office.ann.direct("I like bikes")
    await office.ann.hears()
    theirs = office.slack.world.add_channel("directmessage", has_bot=False)
    office.slack.world.channels["D0THEIRS"] = theirs | {"id": "D0THEIRS"}
    office.model.play([Answer("I don't know.")])

    listing = await answer_to(office, office.ann, "memory", office.slack.world.channels["D0THEIRS"])
    await office.ann.slash(office.slack.world.channels["D0THEIRS"], "/parley", "ask what do I like?")
    await office.until_value("answered", "SELECT status FROM turns WHERE id = 2")

    assert "nothing about you here" in listing
    assert "Ann likes bikes" not in str(office.model.requests[-1].body)
    assert await office.value("SELECT is_direct FROM inbox ORDER BY id DESC LIMIT 1") is False


async def test_a_persona_is_set_by_admins_only(office: Scene) -> None:
    await office.sql("INSERT INTO personas (name, system_prompt) VALUES ('bike', 'Entry.')")

    refusal = await answer_to(office, office.bob, "persona set bike")
    await office.sql("UPDATE users SET permission_level = 'admin'")

    assert refusal == "This needs the permission admin; yours is guest."
    assert (await answer_to(office, office.bob, "persona set bike")).startswith("bike answers in this channel")


async def test_ask_is_a_question_that_all_can_see_and_the_same_command_twice_is_one(office: Scene) -> None:
    office.model.play([Answer("Green.")])

    interaction = await office.ann.slash(office.general, "/parley", "ask what colour\nare bikes?")
    again = await office.slack.delivery.give("slash_commands", interaction.payload)

    assert (await office.bob.hears(office.general))[0].startswith("Green.")
    assert interaction.response == {"text": "", "response_type": "in_channel"}
    assert again.acked_at is not None
    assert await office.sql("SELECT content, status FROM inbox") == [("what colour\nare bikes?", "answered")]
    assert office.refusals() == []


async def test_a_question_is_acknowledged_in_time_when_slack_is_slow(office: Scene) -> None:
    keepers = office.slack.world.add_user_group("Keepers", [office.ann.user])
    grant = "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('slack', :team, :role, 'user')"
    await office.sql(grant, team=office.slack.team_id, role=keepers["id"])
    await answer_to(office, office.bob, "me")
    await office.sql("UPDATE slack_group_lists SET read_at = NULL")
    office.model.play([Answer("At last.")])
    # However busy this machine is: long before Slack has answered anything.
    office.slack.latency, office.slack.delivery.ack_seconds = 30, 20

    interaction = await office.ann.slash(office.ann.dm, "/parley", "ask are you there?")
    office.slack.latency = 0

    assert interaction.is_acked
    assert await office.ann.hears() == ["At last."]


async def test_ask_is_answered_where_the_agent_is_no_member(office: Scene) -> None:
    hidden = office.slack.world.add_channel("hidden", is_private=True, has_bot=False)
    office.ann.joins(hidden)
    office.model.play([Answer("Green & <!channel>.")])

    interaction = await office.ann.slash(hidden, "/parley", "ask what colour are bikes?")
    await office.until_value("delivered", "SELECT status FROM outbox")

    assert [(response["response_type"], response["blocks"][0]["text"]) for response in interaction.responses] == [
        ("in_channel", "Green & &lt;!channel>.")
    ]


async def test_the_shortcut_asks_about_a_message_in_its_thread(office: Scene) -> None:
    office.model.play([Answer("It is about boats.")])
    message = await office.bob.posts(office.general, f"Boats &lt; bikes, says <@{office.ann.id}>")

    form = await (await office.ann.shortcut(office.general, message, "ask_parley")).view()
    submission = await office.ann.submits(form, question="what is this about?")
    again = await office.slack.delivery.give("interactive", submission.payload)

    (answer,) = await office.ann.hears(office.general, thread_ts=message["ts"])
    assert answer.startswith("It is about boats.")
    assert "what is this about?" in office.prompt()
    assert "bob: Boats < bikes, says @ann" in office.prompt()
    assert again.acked_at is not None
    assert await office.value("SELECT count(*) FROM inbox") == 1
    assert office.refusals() == []


async def test_a_form_that_can_not_be_opened_in_time_is_told(office: Scene) -> None:
    message = await office.bob.posts(office.general, "é" * 3500)
    office.slack.fail("views.open", error="expired_trigger_id")

    interaction = await office.ann.shortcut(office.general, message, "ask_parley")

    assert await interaction.answered() == ["I could not open the form; please try again."]
    assert was_private(interaction)


async def test_malformed_payloads_do_no_harm(office: Scene) -> None:
    base = {"user": {"id": office.ann.id}, "team": {"id": office.slack.team_id}}
    value = f"parley:choice:{'f' * 20}:{office.ann.id}:ffffffff:0"
    clicks: list[Json] = [
        {"action_id": "parley:again:0", "block_id": "x"},
        {"action_id": "parley:choice:0", "block_id": "x", "value": value},
        {"action_id": "parley:again:0", "block_id": "x", "value": f"parley:again:1:{office.ann.id}:ffffffff:0"},
        {"action_id": "parley_home:remove", "block_id": "x", "value": "memories:" + "9" * 30},
        {"action_id": "parley_home:remove", "block_id": "x", "value": "memories:\u0662"},
        {"action_id": "parley_home:what", "block_id": "x"},
    ]
    odd: list[Json] = [
        *(base | {"type": "block_actions", "actions": [click]} for click in clicks),
        base | {"type": "message_action", "callback_id": "ask_parley"},
        base | {"type": "message_action", "callback_id": "ask_parley", "message": {}, "channel": {}},
        base | {"type": "view_submission", "view": {"callback_id": "parley_budget", "type": "modal", "state": {}}},
    ]
    for payload in odd:
        assert (await office.slack.delivery.give("interactive", payload)).acked_at is not None, payload
    for fields in ({}, {"team_id": "T0", "user_id": "U0", "text": "budget"}, {"user_id": office.ann.id, "text": "me"}):
        command = {"command": "/parley", "team_id": office.slack.team_id, **fields}
        assert (await office.slack.delivery.give("slash_commands", command)).acked_at is not None, fields

    office.model.play([Answer("Still here.")])
    await office.ann.direct("hello")
    assert await office.ann.hears() == ["Still here."]


async def test_commands_come_by_http_as_well(scene: Scene, address: Address, model: OpenAIStub) -> None:
    async with opened_by_http(scene, address, model):
        interaction = await scene.ann.slash(scene.general, "/parley", "budget")
        assert "5,000 tokens" in (await interaction.answered())[0]
        await scene.ann.opens_home()
        await scene.slack.until(lambda: scene.ann.home)


async def test_a_credential_is_entered_in_a_form_and_typed_into_a_channel_it_is_not_kept(office: Scene) -> None:
    form = await (await office.ann.slash(office.general, "/parley", "credential set pms")).view()
    submission = await office.ann.submits(form, credential="lantern-4711-wagon")
    assert submission.response["response_action"] == "update"
    assert "I keep your credential pms encrypted" in str(submission.response["view"]["blocks"])
    short = await office.ann.submits(form, credential="short")
    assert "A credential has at least 8" in short.response["errors"]["credential"]
    assert "pms (since" in await answer_to(office, office.ann, "credential list")

    assert "I have not kept" in await answer_to(office, office.ann, "credential set pms lantern-4711-wagon")
    for mark in ("", "\u200b"):
        office.slack.world.ephemerals.clear()
        await office.ann.mentions(office.general, f"{mark}/credential set pms lantern-4711-wagon")
        await office.slack.until(lambda: office.ann.whispers(office.general))
        assert "I have not kept" in office.ann.whispers(office.general)[-1]["text"]
    assert not office.model.requests
    assert "lantern" not in str(await office.sql("SELECT content FROM inbox"))
    assert office.refusals() == []


async def test_login_sends_a_link_to_the_person_alone_that_opens_the_page_as_them(office: Scene) -> None:
    interaction = await office.ann.slash(office.general, "/parley", "login")
    reply = (await interaction.answered())[-1]
    async with open_page(office.parley) as site:
        entered = await open_by_hand(find_link(site, reply))
        used = await open_by_hand(find_link(site, reply))

    assert was_private(interaction)
    assert office.ann.reads(office.general) == []
    assert (entered.status_code, used.status_code) == (200, 401)
    assert await office.value("SELECT count(DISTINCT user_id) FROM user_platform_links") == 1
    assert await office.value("SELECT login FROM web_sessions") == "command"
    assert office.refusals() == []
