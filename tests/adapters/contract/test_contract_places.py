"""Where it answers, and what the buttons of its answers do, on every platform."""

from tests.adapters.contract.driver import ANN, BOB, Capability, PlatformDriver
from tests.standins.openai_api import Answer
from tests.support.office import calls

CHOOSE = ("dialogue__ask_question", {"question": "Bike or boat?", "options": ["Bike", "Boat"]})
SAID = "SELECT content FROM inbox ORDER BY id"
MODE = """
INSERT INTO channel_modes (platform, platform_server_id, platform_channel_id, mode) VALUES (:on, :server, :in, :as)
"""


async def test_channel_modes_in_sql_count_from_the_next_message_on_and_the_closest_wins(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Always."), Answer("Between."), Answer("Again.")])
    quiet = await talk.add_channel("quiet")
    for channel, mode in ((None, "off"), (talk.channel.channel, "always")):
        await talk.scene.sql(MODE, **{"on": talk.name, "server": talk.server, "in": channel, "as": mode})
    await talk.say(ANN, "off by the server", quiet)
    await talk.say(ANN, "no mention", talk.channel, calls=False)
    assert await talk.hear(talk.channel) == ["Always."]

    await talk.scene.sql("UPDATE channel_modes SET mode = 'off'")
    await talk.say(ANN, "switched off", talk.channel)
    await talk.say(BOB, "in between", talk.direct(BOB))
    await talk.hear(talk.direct(BOB))
    await talk.scene.sql("UPDATE channel_modes SET mode = 'mention'")
    await talk.say(ANN, "switched on", talk.channel)

    assert await talk.hear(talk.channel, 2) == ["Always.", "Again."]
    assert await talk.scene.sql(SAID) == [("no mention",), ("in between",), ("switched on",)]


async def test_thumbs_are_kept_as_feedback_and_the_last_counts(talk: PlatformDriver) -> None:
    talk.scene.model.play([Answer("Good?")])
    place = talk.direct(ANN)
    await talk.say(ANN, "hello", place)
    await talk.until_delivered()

    thanks = "Thank you; that is noted." if Capability.NOTICES in talk.capabilities else ""
    for thumb in ("👎", "👍"):
        assert await talk.press_for_notice(ANN, talk.posts(place)[0], thumb) == thanks

    turns = await talk.scene.sql("SELECT id, user_id, CAST(1 AS smallint) FROM turns")
    assert await talk.scene.sql("SELECT turn_id, user_id, score FROM feedback") == turns
    assert talk.posts(place)[0].buttons == ("🔄", "👍", "👎")


async def test_choices_are_buttons_and_a_choice_is_the_next_message(talk: PlatformDriver) -> None:
    talk.scene.model.play([calls(CHOOSE), Answer("A boat it is.")])
    place = talk.direct(ANN)
    await talk.scene.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', :on)", on=talk.name)
    await talk.say(ANN, "choose for me", place)
    await talk.until_delivered()
    assert talk.posts(place)[0].buttons == ("Bike", "Boat")

    await talk.press(ANN, talk.posts(place)[0], "Boat")

    assert (await talk.hear(place, 2))[1] == "A boat it is."
    assert await talk.scene.sql(SAID) == [("choose for me",), ("Boat",)]
    # What was chosen stays in sight, and can't be pressed any more.
    await talk.wait(lambda: talk.posts(place)[0].buttons == ())
    assert "Boat" in str(talk.posts(place)[0].raw)


async def test_what_people_say_to_each_other_is_read_and_not_answered_unless_the_channel_wants_it(
    talk: PlatformDriver,
) -> None:
    talk.scene.model.play([Answer("Here."), Answer("Both."), Answer("Boats."), Answer("Me too.")])
    thread = await talk.add_thread("bikes")
    await talk.say(ANN, "are you there?", thread)
    await talk.hear(thread)

    await talk.say(ANN, f"{talk.mention(BOB)} what do you think?", thread, calls=False)
    await talk.say(BOB, "boats are louder", thread, calls=False)
    await talk.say(ANN, "so which one is it?", thread, calls=False)
    assert await talk.hear(thread, 2) == ["Here.", "Both."]
    assert await talk.scene.sql(SAID) == [("are you there?",), ("so which one is it?",)]
    prompt = str(talk.scene.model.requests[-1].body["messages"])
    assert "what do you think?" in prompt
    assert "boats are louder" in prompt

    # Who is called together with the agent does not take its place.
    await talk.say(BOB, f"{talk.mention(ANN)} and you?", thread)
    assert await talk.hear(thread, 3) == ["Here.", "Both.", "Boats."]

    await talk.scene.sql(MODE, **{"on": talk.name, "server": talk.server, "in": thread.channel, "as": "mention"})
    await talk.scene.sql("UPDATE channel_modes SET answers_others = true")
    await talk.say(BOB, f"{talk.mention(ANN)} I like it", thread, calls=False)
    assert await talk.hear(thread, 4) == ["Here.", "Both.", "Boats.", "Me too."]
