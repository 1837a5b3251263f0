"""What people can rely on, on every platform: answers, changes, questions, files."""

import json

from tests.adapters.contract.driver import AGAIN, ANN, BOB, Capability, Place, PlatformDriver, Post, drivers
from tests.standins.openai_api import Answer
from tests.support.documents import document
from tests.support.leaks import READ_BOTH, check, leak
from tests.support.office import MAIL, Office, age, calls, statuses

INBOX = "SELECT content FROM inbox ORDER BY id"
SLOW = "One two three four five six seven eight nine ten."


async def ask_for_approval(driver: PlatformDriver, office: Office) -> tuple[Post, Place]:
    """Let Ann ask in the channel for a tool that needs her approval; return the question and its conversation."""
    driver.scene.parley.app.tools.mcp.offer(office.tools())
    await driver.scene.sql(
        "INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', :name)", name=driver.name
    )
    question = await driver.say(ANN, "mail Bob", driver.channel)
    await driver.hear(driver.channel)
    await driver.until_delivered()
    return driver.posts(driver.channel)[0], driver.conversation(question)


async def test_a_question_is_answered_once_and_belongs_to_it(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Hi Ann."), Answer("Directly.")])

    await talk.say(ANN, "nobody asked you", talk.channel, calls=False)
    question = await talk.say(ANN, "hello", talk.channel)
    assert await talk.hear(talk.channel) == ["Hi Ann."]
    await talk.say(ANN, "hello", talk.direct(ANN))
    assert await talk.hear(talk.direct(ANN)) == ["Directly."]

    (post,) = talk.posts(talk.channel)
    assert post.question == question.id
    in_thread = post.place == Place(question.place.channel, question.id)
    assert in_thread == (Capability.QUOTES_QUESTION not in talk.capabilities)
    assert await talk.scene.sql(INBOX) == [("hello",), ("hello",)]
    assert talk.refusals() == []


async def test_in_a_thread_that_it_takes_part_in_no_mention_is_needed(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("First."), Answer("Second.")])
    thread = await talk.add_thread("Trailers")

    await talk.say(ANN, "not yet called", thread, calls=False)
    await talk.say(ANN, "now called", thread)
    await talk.hear(thread)
    await talk.say(BOB, "no mention any more", thread, calls=False)

    assert await talk.hear(thread, 2) == ["First.", "Second."]
    places = "SELECT platform, platform_server_id, platform_channel_id, platform_thread_id FROM conversations"
    assert await talk.scene.sql(places) == [(talk.name, talk.server, thread.channel, thread.thread)]


async def test_a_due_job_speaks_where_it_was_made(talk: PlatformDriver) -> None:
    job = ("scheduler__add_job", {"text": "Feed the bikes.", "at": "tomorrow at 9"})
    talk.scene.model.play([Answer("Hi Ann."), calls(job), Answer("I will.")])
    await talk.say(ANN, "hello", talk.channel)
    await talk.hear(talk.channel)
    await talk.scene.sql("UPDATE users SET permission_level = 'user', token_budget_monthly = NULL")
    question = await talk.say(ANN, "remind me tomorrow", talk.channel)
    await talk.hear(talk.channel, 2)

    await talk.scene.sql("UPDATE scheduled_jobs SET next_due_at = now()")

    posts = await talk.hear(talk.channel, 3)
    assert posts[2].startswith("Reminder for ")
    assert posts[2].endswith(": Feed the bikes.")
    assert talk.posts(talk.channel)[2].place == talk.conversation(question)
    assert talk.refusals() == []


async def test_a_long_answer_arrives_whole_and_in_order_with_balanced_fences(talk: PlatformDriver) -> None:
    lines = [f"print({number:05})" for number in range(int(talk.message_limit * 1.5) // 13)]
    talk.scene.model.play([Answer("\n".join(["Here:", "```python", *lines, "```", "That is all."]))])

    await talk.say(ANN, "code, please", talk.direct(ANN))
    await talk.until_delivered()

    parts = talk.texts(talk.direct(ANN))
    assert len(parts) == 2
    assert all(len(part) <= talk.message_limit and part.count("```") == 2 for part in parts)
    assert parts[1].startswith("```python\n")
    assert [line for part in parts for line in part.splitlines() if line.startswith("print")] == lines
    assert [bool(post.buttons) for post in talk.posts(talk.direct(ANN))] == [False, True]
    assert talk.refusals() == []


async def test_a_very_long_answer_is_a_file_behind_its_beginning(talk: PlatformDriver) -> None:
    text = "\n\n".join(f"Paragraph {number}. " + "word " * 200 for number in range(60))
    talk.scene.model.play([Answer(text)])

    await talk.say(ANN, "a book, please", talk.direct(ANN))
    await talk.until_delivered()

    posts = talk.posts(talk.direct(ANN))
    assert posts[0].text.startswith("Paragraph 0.")
    assert "The whole answer is in the file." in posts[0].text
    assert [file for post in posts for file in post.files] == [("answer.md", text.strip().encode())]
    assert len(posts) == (1 if Capability.FILES_IN_ANSWER in talk.capabilities else 2)


async def test_a_table_is_readable(talk: PlatformDriver) -> None:
    table = "| Bike | Legs |\n|---|:-:|\n| Grass bike | 4 |\n| **Trailer** | 0 |"
    talk.scene.model.play([Answer(f"{table}\n\nDone.")])

    await talk.say(ANN, "a table", talk.direct(ANN))

    drawing = "```\nBike        Legs\n----------  ----\nGrass bike  4\nTrailer     0\n```"
    text = table if Capability.TABLES in talk.capabilities else drawing
    assert await talk.hear(talk.direct(ANN)) == [f"{text}\n\nDone."]


async def test_nobody_is_notified_unless_the_persona_allows_it_and_never_everyone(talk: PlatformDriver) -> None:
    bob = talk.mention(BOB)
    talk.scene.model.play([Answer(f"@everyone @here <!channel> <!here|here> <!everyone> and {bob}")] * 2)

    await talk.say(ANN, "shout", talk.channel)
    await talk.hear(talk.channel)
    assert talk.notified(talk.channel) == set()
    await talk.scene.sql(
        "INSERT INTO personas (name, system_prompt, platform, allow_mentions) VALUES ('p', 's', :name, true)",
        name=talk.name,
    )
    await talk.say(ANN, "shout", talk.channel)
    await talk.hear(talk.channel, 2)

    assert talk.notified(talk.channel) == {BOB}


async def test_an_answer_is_made_again_for_who_asked_alone(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("First try."), Answer("Second try.")])
    question = await talk.say(ANN, "write a poem", talk.channel)
    await talk.hear(talk.channel)
    await talk.until_delivered()

    result = await talk.press_for_notice(BOB, talk.posts(talk.channel)[0], AGAIN)
    await talk.press(ANN, talk.posts(talk.channel)[0], AGAIN)

    assert await talk.hear(talk.channel, 2) == ["First try.", "Second try."]
    assert result == (f"These buttons are for {talk.mention(ANN)}." if Capability.NOTICES in talk.capabilities else "")
    await talk.wait(lambda: talk.posts(talk.channel)[0].buttons == ())
    assert talk.posts(talk.channel)[1].question == question.id
    assert "write a poem" in talk.scene.prompt()


async def test_a_yes_is_a_click_of_who_was_asked_whatever_was_said_since(talk: PlatformDriver) -> None:
    office = Office()
    talk.scene.model.play([calls(MAIL), Answer("A friend."), Answer("Sent.")])
    question, conversation = await ask_for_approval(talk, office)
    await talk.say(ANN, "who is Bob?", conversation)
    await talk.hear(talk.channel, 2)

    result = await talk.press_for_notice(BOB, question, "Yes")
    assert ("are for" in result, office.sent) == (True, [])
    await talk.press(ANN, question, "Yes")

    assert (await talk.hear(talk.channel, 3))[2] == "Sent."
    assert office.sent == [("bob", "See you at eight.")]
    assert await statuses(talk.scene.parley) == ["used"]


async def test_a_no_does_nothing(talk: PlatformDriver) -> None:
    office = Office()
    talk.scene.model.play([calls(MAIL), Answer("Then not.")])
    question, _ = await ask_for_approval(talk, office)

    await talk.press(ANN, question, "No")

    assert (await talk.hear(talk.channel, 2))[1] == "Then not."
    assert office.sent == []
    assert await statuses(talk.scene.parley) == ["denied"]
    await talk.wait(lambda: talk.posts(talk.channel)[0].buttons == ())


async def test_a_yes_that_comes_too_late_does_nothing(talk: PlatformDriver) -> None:
    office = Office()
    talk.scene.model.play([calls(MAIL), Answer("Never.")])
    question, _ = await ask_for_approval(talk, office)
    await age(talk.scene.parley, 11)

    await talk.press(ANN, question, "Yes")

    assert (await talk.hear(talk.channel, 2))[1].startswith("Your answer came too late")
    assert office.sent == []


async def test_a_running_answer_is_stopped_by_the_button_of_who_asked(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer(SLOW, chunk_chars=2, chunk_delay=0.5)])
    await talk.say(ANN, "slowly", talk.channel)
    refusal = await talk.press_stop(BOB, talk.channel)
    assert await talk.scene.value("SELECT status FROM turns") == "running"
    confirmation = await talk.press_stop(ANN, talk.channel)
    if {Capability.STOP_ON_ANSWER, Capability.NOTICES} <= talk.capabilities:
        assert "are for" in refusal
        assert confirmation == "Stopping."
    await talk.until_delivered()

    assert await talk.scene.value("SELECT status FROM turns") == "cancelled"
    (answer,) = await talk.hear(talk.channel)
    assert (answer.endswith("Stopped."), "ten" in answer) == (True, False)


async def test_a_running_answer_is_stopped_by_a_command_of_who_asked(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer(SLOW, chunk_chars=4, chunk_delay=0.5)])
    await talk.say(ANN, "slowly", talk.channel)
    await talk.scene.until_value("running", "SELECT status FROM turns")

    assert await talk.command(BOB, "stop", talk.channel) == "Nothing of yours is running here."
    assert await talk.command(ANN, "stop", talk.channel) == "Stopping."
    await talk.until_delivered()

    assert await talk.scene.value("SELECT status FROM turns") == "cancelled"
    assert (await talk.hear(talk.channel))[0].endswith("Stopped.")


async def test_in_a_thread_a_command_stops_the_answer_too(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer(SLOW, chunk_chars=4, chunk_delay=0.5)])
    thread = await talk.add_thread("Trailers")
    await talk.say(ANN, "slowly", thread)
    await talk.scene.until_value("running", "SELECT status FROM turns")

    if Capability.COMMANDS_IN_THREADS in talk.capabilities:
        assert await talk.command(ANN, "stop", thread) == "Stopping."
    else:
        await talk.say(ANN, "/stop", thread)
    await talk.until_delivered()

    assert (await talk.hear(thread))[0].endswith("Stopped.")


async def test_a_command_is_one_however_its_slash_is_written(talk: PlatformDriver) -> None:
    for name, beginning in (
        ("wide", "\uff0fcredential"),
        ("hidden", "\u2060/\u200bcre\u00addential"),
        ("other", "\u2215credential"),
        ("apart", "/ credential"),
    ):
        await talk.say(ANN, f"{beginning} set {name} opens-nothing", talk.direct(ANN))
    await talk.scene.until_value(4, "SELECT count(*) FROM credentials")
    await talk.say(ANN, "/ erase me", talk.direct(ANN))
    await talk.scene.until_value(1, "SELECT count(*) FROM confirmations")

    assert await talk.scene.value("SELECT count(*) FROM turns") == 0
    assert "opens-nothing" not in str(await talk.scene.sql("SELECT content FROM inbox"))


async def test_a_file_that_comes_in_is_read_by_a_tool(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer(tool_calls=[("file_manager__read_document", {"file_id": 1})]), Answer("Green.")])

    await talk.say(ANN, "read this", talk.direct(ANN), files=[("notes.txt", b"bikes are green")])

    # On a slow machine the call is shown above it meanwhile.
    (post,) = await talk.hear(talk.direct(ANN))
    assert post.endswith("Green.")
    assert "notes.txt (file_id 1" in talk.scene.prompt(0)
    assert "bikes are green" in json.dumps(talk.scene.model.requests[1].body["messages"][-1])
    assert await talk.scene.sql("SELECT filename, mime_type, status FROM file_records") == [
        ("notes.txt", "text/plain", "stored")
    ]


async def test_a_file_of_the_answer_goes_out(talk: PlatformDriver) -> None:
    arguments = {"title": "Bikes", "content": "Bikes are green.", "format": "txt"}
    talk.scene.model.play([Answer(tool_calls=[("file_manager__create_document", arguments)]), Answer("Here it is.")])

    question = await talk.say(ANN, "write it down", talk.channel)
    await talk.until_delivered()

    posts = talk.posts(talk.channel)
    assert {post.place for post in posts} == {talk.conversation(question)}
    (file,) = [file for post in posts for file in post.files]
    assert (file[0].endswith(".txt"), b"Bikes are green." in file[1]) == (True, True)
    assert "Here it is." in posts[0].text
    assert len(posts) == (1 if Capability.FILES_IN_ANSWER in talk.capabilities else 2)
    assert talk.refusals() == []


def test_the_page_on_differences_says_what_the_drivers_say() -> None:
    rows = document("docs/platform-differences.md").rows("What each platform can do")
    can = {row[0]: [cell == "yes" for cell in row[1:]] for row in rows}

    assert can == {
        capability.value: [capability in kind.capabilities for kind in drivers()] for capability in Capability
    }


async def test_nothing_leaves_that_a_model_made_up_hid_or_left_open(talk: PlatformDriver) -> None:
    app, place = talk.scene.parley.app, talk.direct(ANN)
    app.tools.mcp.offer(Office().tools())
    await talk.scene.sql(
        "INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Go.', :name)", name=talk.name
    )
    secret, lines = app.secrets.api_token, int(talk.message_limit * 1.2) // 13
    talk.scene.model.play([*READ_BOTH, leak(secret, lines)])

    await talk.say(ANN, "go on", place)
    await talk.until_delivered()

    parts = talk.texts(place)
    assert len(parts) == 2
    assert all(part.count("```") == 2 for part in parts)
    check("\n".join(parts), secret)
    assert "evil.example" not in str([post.raw for post in talk.posts(place)])
    assert sum(part.count("print(") for part in parts) == lines
