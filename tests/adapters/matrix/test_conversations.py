"""Conversations on Matrix, at a real homeserver."""

from tests.adapters.matrix.conftest import Scene
from tests.standins.openai_api import Answer

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
    await matrix.until(1, "SELECT count(*) FROM outbox WHERE status = 'delivered'")

    await bob.edits(room, question, "tell me of Bob")
    await ann.edits(room, question, "tell me of bikes")
    await ann.sees(lambda: ann.of(matrix.agent.id, room, "m.reaction"))
    assert await matrix.parley.value("SELECT content FROM inbox") == "tell me of bikes"
    await ann.reacts(room, answer, "🔄")
    await matrix.hears("Of bikes.", room)

    await ann.call("PUT", "rooms", room, "redact", question, "redacted", body={})
    await matrix.until(2, "SELECT count(*) FROM inbox WHERE content = '[deleted]'")
    await ann.says(direct, "and then?")
    await matrix.hears("Then.")


async def test_reactions_are_buttons_of_who_asked(matrix: Scene) -> None:
    ann, bob, room = matrix.ann, matrix.bob, matrix.room
    choose = ("dialogue__ask_question", {"question": "Bike or boat?", "options": ["Bike", "Boat"]})
    matrix.parley.model.play([Answer("Good?"), Answer(tool_calls=[choose]), Answer("A boat it is.")])
    await matrix.parley.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'matrix')")
    await ann.says(room, "hello", **mention(matrix))
    answer = await matrix.hears("Good?", room)
    await matrix.until(1, "SELECT count(*) FROM chat_buttons")
    await bob.reacts(room, answer, "👎")
    await ann.reacts(room, answer, "👍\ufe0f")
    await matrix.until(1, "SELECT count(*) FROM feedback")
    assert await matrix.parley.value("SELECT score FROM feedback") == 1

    await ann.says(room, "choose for me", **mention(matrix))
    await ann.sees(lambda: len(ann.of(matrix.agent.id, room, "m.reaction")) == 2)
    question = ann.of(matrix.agent.id, room)[-1]
    assert question["content"]["body"].endswith("1️⃣ Bike  \n2️⃣ Boat")
    await bob.reacts(room, question["event_id"], "1️⃣")
    await matrix.hears(f"These buttons are for {ann.id}.", room)
    await ann.reacts(room, question["event_id"], "2️⃣")
    await matrix.hears("A boat it is.", room)
    assert await matrix.parley.value("SELECT content FROM inbox ORDER BY id DESC LIMIT 1") == "Boat"


async def test_commands_begin_with_either_sign_and_private_answers_go_to_the_direct_room(matrix: Scene) -> None:
    ann, agent = matrix.ann, matrix.agent

    await ann.says(matrix.direct, "!stop")
    await matrix.hears("Nothing of yours is running here.")
    await ann.says(matrix.room, "Parley: /budget", **mention(matrix))
    (invited,) = await ann.sees(lambda: ann.invites - {matrix.room, matrix.direct})
    await ann.joins(invited)
    await ann.sees(lambda: ann.texts(agent.id, invited))

    assert "budget" in ann.texts(agent.id, invited)[0].lower()
    assert ann.texts(agent.id, matrix.room) == []
    assert await matrix.parley.value("SELECT count(*) FROM turns") == 0


async def test_an_answer_grows_in_one_message_and_is_stopped_by_a_reaction(matrix: Scene) -> None:
    ann, direct = matrix.ann, matrix.direct
    matrix.parley.model.play([Answer("One two three four five six seven eight nine.", chunk_chars=4, chunk_delay=0.5)])

    await ann.says(direct, "slowly")
    await ann.sees(lambda: ann.of(matrix.agent.id, direct))
    live = ann.of(matrix.agent.id, direct)[0]["event_id"]
    assert ann.texts(matrix.agent.id, direct)[0].endswith("🛑 stops it")
    await matrix.until(1, "SELECT count(*) FROM chat_buttons")
    await ann.reacts(direct, live, "🛑")
    await ann.sees(lambda: ann.texts(matrix.agent.id, direct)[0].endswith("Stopped."))

    assert len(ann.of(matrix.agent.id, direct)) == 1


async def test_files_come_in_with_the_token_and_go_out(matrix: Scene) -> None:
    ann, direct = matrix.ann, matrix.direct
    create = ("file_manager__create_document", {"title": "Bikes", "content": "Bikes are blue.", "format": "txt"})
    matrix.parley.model.play(
        [
            Answer(tool_calls=[("file_manager__read_document", {"file_id": 1})]),
            Answer(tool_calls=[create]),
            Answer("Here it is."),
        ]
    )
    url = await matrix.homeserver.upload(ann, b"bikes are green", "notes.txt")
    facts = {"mimetype": "text/plain", "size": 15}
    await ann.says(direct, "read this", msgtype="m.file", filename="notes.txt", url=url, info=facts)
    await ann.sees(lambda: any(event["content"]["msgtype"] == "m.file" for event in ann.of(matrix.agent.id, direct)))

    assert "bikes are green" in str(matrix.parley.model.requests[1].body["messages"][-1])
    file = ann.of(matrix.agent.id, direct)[-1]["content"]
    server, _, media = file["url"].removeprefix("mxc://").partition("/")
    address = f"{matrix.homeserver.address}/_matrix/client/v1/media/download/{server}/{media}"
    headers = {"Authorization": f"Bearer {ann.token}"}
    async with matrix.homeserver.session.get(address, headers=headers) as response:
        assert "Bikes are blue." in await response.text()

    await ann.says(direct, "secret.txt", msgtype="m.file", file={"url": url, "key": {}})
    await matrix.hears("I can't read an encrypted file; please send it without encryption.")


async def test_long_answers_are_split_and_very_long_ones_are_a_file(matrix: Scene) -> None:
    ann, direct = matrix.ann, matrix.direct
    lines = [f"print({number:05})" for number in range(900)]
    matrix.parley.model.play([Answer("\n".join(["```python", *lines, "```", "Done."])), Answer("word " * 9000)])

    await ann.says(direct, "code, please")
    await ann.sees(lambda: len(ann.of(matrix.agent.id, direct)) == 2)
    parts = ann.texts(matrix.agent.id, direct)
    assert [part.count("```") for part in parts] == [2, 2]
    assert [line for part in parts for line in part.splitlines() if line.startswith("print")] == lines
    await ann.says(direct, "a book, please")
    await ann.sees(lambda: len(ann.of(matrix.agent.id, direct)) == 4)
    assert ann.of(matrix.agent.id, direct)[3]["content"]["filename"] == "answer.md"


async def test_an_encrypted_room_is_refused_once_in_one_sentence(matrix: Scene) -> None:
    ann, room = matrix.ann, matrix.room
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
    ann, agent = matrix.ann, matrix.agent
    matrix.parley.model.play([Answer("Here.")])

    upgraded = await ann.call("POST", "rooms", matrix.room, "upgrade", body={"new_version": "11"})
    room = upgraded["replacement_room"]
    await ann.call("POST", "rooms", room, "invite", body={"user_id": agent.id})
    await ann.sees(lambda: ann.of(agent.id, room, "m.room.member"))
    await ann.sees(lambda: ann.of(agent.id, room, "m.room.member")[-1]["content"]["membership"] == "join")
    await ann.says(room, "are you here?", **mention(matrix))
    await matrix.hears("Here.", room)
