"""Conversations on Matrix, at a real homeserver."""

from typing import Any
from uuid import uuid4

from structlog.testing import capture_logs

from adapters.chat.parts import Post, Upload
from shared.messages import Place
from tests.adapters.matrix.conftest import Scene
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import gated_answer
from tests.support.eventually import eventually
from tests.support.pictures import GREEN, picture, pictures_of

SAID = "SELECT content FROM inbox ORDER BY id"


def mention(scene: Scene) -> dict[str, object]:
    return {"m.mentions": {"user_ids": [scene.agent.id]}}


async def test_in_a_direct_room_every_message_is_answered_with_html_beside_the_text(matrix: Scene) -> None:
    matrix.parley.model.play([Answer("Hi **Ann**, <b>1 < 2</b>\n\n| A | B |\n|---|---|\n| 1 | 2 |")])

    question = await matrix.ann.says(matrix.direct, "hello")
    await matrix.ann.sees(lambda: matrix.ann.of(matrix.agent.id, matrix.direct))

    content = matrix.ann.of(matrix.agent.id, matrix.direct)[0]["content"]
    assert content["msgtype"] == "m.notice"
    assert content["body"].startswith("Hi **Ann**")
    assert "<strong>Ann</strong>, &lt;b&gt;1 &lt; 2&lt;/b&gt;" in content["formatted_body"]
    assert "<table>" in content["formatted_body"]
    assert content["m.relates_to"]["m.in_reply_to"]["event_id"] == question
    assert content["m.mentions"] == {}
    assert (content["com.beeper.linkpreviews"], content["uk.half-shot.unstable.show_url_previews"]) == ([], False)
    assert await matrix.parley.sql("SELECT platform_server_id, is_direct FROM conversations") == [(None, True)]


async def test_in_a_room_mentions_and_replies_are_answered_and_what_people_say_is_read(matrix: Scene) -> None:
    ann, bob, room = matrix.ann, matrix.bob, matrix.room
    matrix.parley.model.play([Answer("Green."), Answer("Blue."), Answer("In the thread."), Answer("Still there.")])

    await bob.says(room, "boats are louder")
    await ann.says(room, "Parley: what colour are bikes?", **mention(matrix))
    green = await matrix.hears("Green.", room)
    assert "boats are louder" in matrix.prompt()
    await bob.says(room, "and boats?", **{"m.relates_to": {"m.in_reply_to": {"event_id": green}}})
    await matrix.hears("Blue.", room)
    await ann.says(room, "thanks, Bob", **{"m.mentions": {"user_ids": [bob.id]}})

    root = await bob.says(room, "a thread begins")
    thread = {"rel_type": "m.thread", "event_id": root}
    await ann.says(room, "here too?", **mention(matrix), **{"m.relates_to": thread})
    await matrix.hears("In the thread.", room)
    await bob.says(room, "and without a mention?", **{"m.relates_to": thread})
    last = await matrix.hears("Still there.", room)

    content = next(event["content"] for event in ann.of(matrix.agent.id, room) if event["event_id"] == last)
    assert content["m.relates_to"]["event_id"] == root
    assert [row.content for row in await matrix.parley.sql(SAID)][1:] == [
        "and boats?",
        "here too?",
        "and without a mention?",
    ]
    # A room outside of spaces is a server of its own: whoever makes one is nobody elsewhere.
    servers = await matrix.parley.sql("SELECT DISTINCT platform_server_id, is_direct FROM conversations")
    assert servers == [(room, False)]


async def test_modes_are_rows_and_notices_are_never_answered(matrix: Scene) -> None:
    matrix.parley.model.play([Answer("Always."), Answer("Directly.")])
    mode = "INSERT INTO channel_modes (platform, platform_server_id, mode) VALUES ('matrix', :server, 'always')"
    await matrix.parley.sql(mode, server=matrix.room)

    await matrix.bob.says(matrix.room, "I am a bot", msgtype="m.notice", **mention(matrix))
    await matrix.bob.says(matrix.room, "no mention")
    await matrix.hears("Always.", matrix.room)
    await matrix.parley.sql("UPDATE channel_modes SET mode = 'off'")
    await matrix.bob.says(matrix.room, "switched off", **mention(matrix))
    await matrix.ann.says(matrix.direct, "hello")
    await matrix.hears("Directly.")

    assert await matrix.parley.sql(SAID) == [("no mention",), ("hello",)]


async def test_edits_and_redactions_are_those_of_the_author(matrix: Scene) -> None:
    ann, bob, direct, room = matrix.ann, matrix.bob, matrix.direct, matrix.room
    matrix.parley.model.play([Answer("Of forgs."), Answer("Of bikes."), Answer("Then.")])
    question = await ann.says(room, "tell me of forgs", **mention(matrix))
    answer = await matrix.hears("Of forgs.", room)
    await matrix.until_value(1, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    await bob.edits(room, question, "tell me of Bob")
    await ann.edits(room, question, "tell me of bikes")
    await ann.sees(lambda: ann.of(matrix.agent.id, room, "m.reaction"))
    assert await matrix.parley.value("SELECT content FROM inbox") == "tell me of bikes"
    await ann.reacts(room, answer, "🔄")
    await matrix.hears("Of bikes.", room)

    await ann.call("PUT", "rooms", room, "redact", question, "redacted", body={})
    await matrix.until_value(2, "SELECT count(*) FROM inbox WHERE content = '[deleted]'")
    await ann.says(direct, "and then?")
    await matrix.hears("Then.")


async def test_reactions_are_buttons_of_who_asked(matrix: Scene) -> None:
    ann, bob, room = matrix.ann, matrix.bob, matrix.room
    choose = ("dialogue__ask_question", {"question": "Bike or boat?", "options": ["Bike", "Boat"]})
    matrix.parley.model.play([Answer("Good?"), Answer(tool_calls=[choose]), Answer("A boat it is.")])
    await matrix.parley.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'matrix')")
    await ann.says(room, "hello", **mention(matrix))
    answer = await matrix.hears("Good?", room)
    await matrix.until_value(1, "SELECT count(*) FROM chat_buttons")
    await bob.reacts(room, answer, "👎")
    await ann.reacts(room, answer, "👍\ufe0f")
    await matrix.until_value(1, "SELECT count(*) FROM feedback")
    assert await matrix.parley.value("SELECT score FROM feedback") == 1

    await ann.says(room, "choose for me", **mention(matrix))
    await ann.sees(lambda: len(ann.of(matrix.agent.id, room, "m.reaction")) == 2)
    question = ann.of(matrix.agent.id, room)[-1]
    assert question["content"]["body"] == "Bike or boat?\n\n1️⃣ Bike  \n2️⃣ Boat"
    for emoji in ("1️⃣", "2️⃣"):
        await bob.reacts(room, question["event_id"], emoji)
    await matrix.hears(refusal := f"These buttons are for {ann.id}.", room)
    await ann.reacts(room, question["event_id"], "2️⃣")
    await matrix.hears("A boat it is.", room)
    assert ann.texts(matrix.agent.id, room).count(refusal) == 1
    assert await matrix.parley.value("SELECT content FROM inbox ORDER BY id DESC LIMIT 1") == "Boat"


async def test_commands_begin_with_either_sign_and_private_answers_go_to_the_direct_room(matrix: Scene) -> None:
    ann, agent = matrix.ann, matrix.agent
    # As if it knew none.
    await agent.call("PUT", "user", agent.id, "account_data", "m.direct", body={})

    for line in ("!stop", "\u200b!stop", "\uff01\u200bstop"):
        await ann.says(matrix.direct, line)
    await ann.sees(lambda: ann.texts(agent.id, matrix.direct) == ["Nothing of yours is running here."] * 3)
    # Set apart from a text that is written from right to left.
    await ann.says(matrix.room, "\u2068Parley\u2069: /budget", **mention(matrix))
    (invited,) = await ann.sees(lambda: ann.invites)
    await ann.joins(invited)
    await ann.sees(lambda: ann.texts(agent.id, invited))
    # As the clients of phones write the mention.
    await ann.says(matrix.room, f"[{agent.id}](https://matrix.to/#/{agent.id}) !budget", **mention(matrix))
    await ann.sees(lambda: len(ann.texts(agent.id, invited)) == 2)

    about = f"About https://matrix.to/#/{matrix.room}\n\n"
    assert [answer.startswith(f"{about}You have used") for answer in ann.texts(agent.id, invited)] == [True, True]
    assert ann.texts(agent.id, matrix.room) == []
    assert await matrix.parley.value("SELECT count(*) FROM turns") == 0


async def test_texts_name_commands_by_the_sign_that_clients_leave_alone(matrix: Scene) -> None:
    matrix.model.play([Answer("Look into /help.")])

    for line in ("!help", "!memory forget all", "!confirm no", "!hlep"):
        await matrix.ann.says(matrix.direct, line)
    await matrix.hears("There is no command hlep; did you mean !help? !help lists them all.")
    commands, question, *_ = matrix.ann.texts(matrix.agent.id, matrix.direct)
    assert "\n!memory list|forget WHAT" in commands
    assert "/" not in commands
    assert "To do it, write !confirm 1; otherwise !confirm no." in question
    # What the model says stays as it is.
    await matrix.ann.says(matrix.direct, "where are your files?")
    await matrix.hears("Look into /help.")
    # What refuses a turn is no model's.
    matrix.model.windows["stub"] = 1000
    await matrix.ann.says(matrix.direct, "word " * 2000)
    await matrix.hears(
        "This is more than my language models can read at once; please send less, or begin afresh with !reset."
    )


async def test_a_file_that_people_show_each_other_is_named_to_the_agent(matrix: Scene) -> None:
    matrix.parley.model.play([Answer("A list.")])
    url = await matrix.homeserver.upload(matrix.bob, b"oars", "list.txt")

    await matrix.bob.says(matrix.room, "list.txt", msgtype="m.file", url=url)
    await matrix.ann.says(matrix.room, "Parley: what did Bob show?", **mention(matrix))
    await matrix.hears("A list.", matrix.room)

    assert "[files: list.txt]" in matrix.prompt()


async def test_a_picture_is_sent_as_one(scene: Scene) -> None:
    platform, place = scene.build(), Place("matrix", None, scene.direct, is_direct=True)

    await platform.upload(place, Upload("bike.png", content := picture()), Post("bike.png", uuid4().hex))
    (event,) = await scene.ann.sees(lambda: scene.ann.of(scene.agent.id, scene.direct))
    await platform.aclose()

    shown = event["content"]
    assert (shown["msgtype"], shown["info"]["mimetype"], shown["body"]) == ("m.image", "image/png", "bike.png")
    assert await scene.homeserver.download(scene.ann, shown["url"]) == content


async def test_a_picture_that_comes_in_is_shown_to_the_model(matrix: Scene) -> None:
    matrix.model.play([Answer("A bike.")])
    url = await matrix.homeserver.upload(matrix.ann, picture(), "bike.png")
    file = {"msgtype": "m.image", "filename": "bike.png", "url": url, "info": {"mimetype": "image/png"}}

    await matrix.ann.says(matrix.direct, "what is this?", **file)
    await matrix.hears("A bike.")

    (image,) = pictures_of(matrix.parley)
    assert image.getpixel((5, 5)) == GREEN


async def test_what_programs_write_is_not_answered_and_a_place_on_the_map_is(matrix: Scene) -> None:
    ann, direct = matrix.ann, matrix.direct
    matrix.model.play([Answer("That is London.")])

    for kind in ("m.notice", "m.server_notice", "m.key.verification.request"):
        await ann.says(direct, "please verify", msgtype=kind)
    await ann.says(direct, "Big Ben", msgtype="m.location", geo_uri="geo:51.5,-0.1")
    await matrix.hears("That is London.")

    assert await matrix.sql(SAID) == [("Big Ben\ngeo:51.5,-0.1",)]


async def test_each_question_begins_a_thread_where_the_room_wants_that(matrix: Scene) -> None:
    ann, agent, room = matrix.ann, matrix.agent, matrix.room
    matrix.model.play([Answer("The first."), Answer("The second."), Answer("Of another.")])
    await matrix.sql(
        "INSERT INTO channel_modes (platform, platform_server_id, mode, thread_per_question)"
        " VALUES ('matrix', :room, 'mention', true)",
        room=room,
    )

    question = await ann.says(room, "hello", **mention(matrix))
    await matrix.hears("The first.", room)
    thread = {"rel_type": "m.thread", "event_id": question}
    reply = {"is_falling_back": True, "m.in_reply_to": {"event_id": question}}
    again = await ann.says(room, "and then?", **{"m.relates_to": thread | reply})
    await matrix.hears("The second.", room)
    other = await ann.says(room, "something else", **mention(matrix))
    await matrix.hears("Of another.", room)

    # Below the question itself no client repeats it.
    assert [event["content"]["m.relates_to"] for event in ann.of(agent.id, room)] == [
        thread | reply,
        thread | {"is_falling_back": False, "m.in_reply_to": {"event_id": again}},
        {"rel_type": "m.thread", "event_id": other, "is_falling_back": True, "m.in_reply_to": {"event_id": other}},
    ]
    assert await matrix.value("SELECT count(*) FROM conversations") == 2


async def test_an_encrypted_file_is_refused_in_one_sentence(matrix: Scene) -> None:
    url = await matrix.homeserver.upload(matrix.ann, b"xxx", "secret.txt")

    await matrix.ann.says(matrix.direct, "secret.txt", msgtype="m.file", file={"url": url, "key": {}})

    await matrix.hears(refusal := "I can't read an encrypted file; please send it without encryption.")
    # What stands below it is a message like any.
    file = {"msgtype": "m.file", "filename": "secret.txt", "file": {"url": url, "key": {}}}
    await matrix.ann.says(matrix.direct, "!stop", **file)
    await matrix.hears("Nothing of yours is running here.")
    assert matrix.ann.texts(matrix.agent.id, matrix.direct)[:-1] == [refusal] * 2


async def test_an_encrypted_room_is_refused_once_in_one_sentence(matrix: Scene) -> None:
    ann, room, matrix.world.is_spoilt = matrix.ann, matrix.room, True
    await ann.call("PUT", "rooms", room, "state", "m.room.encryption", "", body={"algorithm": "m.megolm.v1.aes-sha2"})
    for _ in range(2):
        await ann.sends(room, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"})
    matrix.parley.model.play([Answer("Hi.")])
    await ann.says(matrix.direct, "hello")
    await matrix.hears("Hi.")

    assert ann.texts(matrix.agent.id, room) == [
        "This room is encrypted, and I can't read it; please invite me to a room without encryption."
    ]


async def test_a_room_that_is_upgraded_is_followed(matrix: Scene) -> None:
    ann, agent, matrix.world.is_spoilt = matrix.ann, matrix.agent, True
    matrix.parley.model.play([Answer("Here.")])

    with capture_logs() as logs:
        upgraded = await ann.call("POST", "rooms", matrix.room, "upgrade", body={"new_version": "11"})
        room = upgraded["replacement_room"]

        async def was_refused() -> bool:
            return any(line["event"] == "successor_failed" for line in logs)

        # Nobody may come in yet.
        await eventually(was_refused)
    (line,) = [line for line in logs if line["event"] == "successor_failed"]
    assert (line["log_level"], "not invited" in line["cause"]) == ("warning", True)
    await ann.call("POST", "rooms", room, "invite", body={"user_id": agent.id})
    await ann.sees(lambda: ann.of(agent.id, room, "m.room.member"))
    await ann.sees(lambda: ann.of(agent.id, room, "m.room.member")[-1]["content"]["membership"] == "join")
    await ann.says(room, "are you here?", **mention(matrix))
    await matrix.hears("Here.", room)


async def test_power_levels_are_roles_of_their_room_and_a_space_is_a_server(matrix: Scene) -> None:
    ann, bob, world = matrix.ann, matrix.bob, matrix.world
    public, own = await world.make_channel("general", 0), await bob.makes_room(matrix.agent.id)
    grant = (
        "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('matrix', :server, :role, 'user')"
    )
    # A role of the listed room, on the server that is its space.
    await matrix.sql(grant, server=world.space, role=f"{public} admin")
    await matrix.sql(
        "INSERT INTO personas (name, system_prompt, platform, platform_server_id) "
        "VALUES ('p', 'In the space.', 'matrix', :server)",
        server=world.space,
    )
    matrix.model.play([Answer("Of an admin."), Answer("Of a member."), Answer("In a room of his own.")])

    await ann.says(public, "hello", **mention(matrix))
    await matrix.hears("Of an admin.", public)
    await bob.says(public, "hello", **mention(matrix))
    await matrix.hears("Of a member.", public)
    await bob.sees(lambda: bob.of(matrix.agent.id, own, "m.room.member"))
    await bob.says(own, "hello", **mention(matrix))
    await bob.hears(matrix.agent.id, own, "In a room of his own.")

    requests = [str(request.body) for request in matrix.model.requests]
    assert ["calendar__list_holidays" in request for request in requests] == [True, False, False]
    assert ["In the space." in request for request in requests] == [True, True, False]


async def test_the_room_sees_that_it_has_read_a_question_and_writes(matrix: Scene) -> None:
    ann, direct = matrix.ann, matrix.direct
    hold, script = gated_answer("At last.")
    matrix.model.play(script)
    mark = ann.mark
    question = await ann.says(direct, "hello")
    await matrix.proxy.until(lambda: any("/typing/" in call.path for call in matrix.proxy.journal))
    await matrix.proxy.until(lambda: any("/receipt/" in call.path for call in matrix.proxy.journal))

    batch = await ann.call("GET", "sync", since=mark)
    seen = {event["type"]: event["content"] for event in batch["rooms"]["join"][direct]["ephemeral"]["events"]}
    hold.set()
    await matrix.hears("At last.")

    assert seen["m.typing"] == {"user_ids": [matrix.agent.id]}
    assert matrix.agent.id in seen["m.receipt"][question]["m.read"]


async def test_who_can_not_be_answered_in_a_room_is_told_why_in_the_direct_one(matrix: Scene) -> None:
    bob, agent, before = matrix.bob, matrix.agent, set(matrix.bob.invites)
    levels = {"events_default": 50}
    room = await bob.makes_room(preset="public_chat", power_level_content_override=levels)
    await agent.joins(room)
    matrix.model.play([Answer("Hi.")])

    await bob.says(room, "hello", **mention(matrix))
    notice = f"I have an answer for you in https://matrix.to/#/{room}, but I may not write there."
    await bob.sees(lambda: bob.invites - before or notice in bodies(bob.events))
    for invited in bob.invites - before:
        await bob.joins(invited)
    await bob.sees(lambda: notice in bodies(bob.events))


def bodies(events: list[dict[str, Any]]) -> list[str]:
    """Return the texts of messages in all rooms."""
    return [event["content"].get("body", "") for event in events]


async def test_an_answer_for_a_room_that_it_was_put_out_of_is_given_up_and_others_go_on(matrix: Scene) -> None:
    ann, agent = matrix.ann, matrix.agent
    hold, script = gated_answer("For nobody.")
    matrix.model.play(script)
    room = await ann.makes_room(preset="public_chat")
    await agent.joins(room)
    await ann.says(room, "hello", **mention(matrix))
    await matrix.model.until(1)

    await ann.call("POST", "rooms", room, "kick", body={"user_id": agent.id})
    hold.set()
    await matrix.until_value("failed", "SELECT status FROM outbox")
    matrix.model.play([Answer("Still here.")])
    await ann.says(matrix.direct, "and here?")

    await matrix.hears("Still here.")
    assert "M_FORBIDDEN" in await matrix.value("SELECT error FROM outbox WHERE status = 'failed'")
