"""Slack's agent messaging experience: each direct message begins a thread, with prompts, status and a native stop."""

import pytest

from adapters.slack.install.manifest import build_manifest
from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.office import MAIL, Office, age

DELIVERED = "SELECT count(*) FROM outbox WHERE status = 'delivered'"


@pytest.fixture
async def agent(scene: Scene) -> Scene:
    """The scene with an app that is made of the manifest."""
    await scene.slack.make_app(build_manifest(scene.own, None))
    return scene


async def test_a_direct_message_is_the_root_of_a_thread_with_a_status_and_a_stream(
    agent: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Slowly but surely.", chunk_chars=4, chunk_delay=0.4), Answer("Again."), Answer("Elsewhere.")])
    async with agent.opened(address, model):
        question = await agent.ann.direct("hello")
        await agent.until_value(1, DELIVERED)
        await agent.ann.direct("more", thread_ts=question["ts"])
        await agent.until_value(2, DELIVERED)
        other = await agent.ann.direct("something else")
        await agent.until_value(3, DELIVERED)

        assert agent.ann.reads(thread_ts=question["ts"]) == ["Slowly but surely.", "Again."]
        assert agent.ann.reads(thread_ts=other["ts"]) == ["Elsewhere."]
        assert agent.slack.calls("chat.startStream", ok=True)
        session = agent.slack.world.sessions[agent.ann.dm["id"], question["ts"]]
        # The end of the stream ends the status as well.
        assert session["statuses"] == ["processing", "active"]
        assert session["title"] == "hello"
        assert len(agent.slack.calls("agents.sessions.setStatus")) == 1
        assert agent.slack.calls("chat.postEphemeral") == []
        assert await agent.value("SELECT count(*) FROM conversations WHERE is_direct") == 2
        # Nothing is looked up for a message that begins a thread.
        assert agent.slack.calls("conversations.replies") == []
        assert agent.refusals() == []


async def test_opening_the_messages_offers_prompts_above_them(
    agent: Scene, address: Address, model: OpenAIStub
) -> None:
    async with agent.opened(address, model):
        await agent.ann.opens_home("messages")
        prompts = await agent.slack.until(lambda: agent.slack.world.prompts.get(agent.ann.dm["id"]))

        assert prompts[0] == {"title": "What can you do?", "message": "What can you do for me here?"}
        assert agent.ann.home is None


async def test_the_native_stop_ends_the_answer_of_its_thread_for_whoever_asked(
    agent: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("It would take for ever.", chunk_chars=3, chunk_delay=1.5)])
    async with agent.opened(address, model):
        question = await agent.ann.mentions(agent.general, "slowly")
        await agent.slack.until(lambda: agent.slack.calls("chat.startStream"))
        await agent.bob.stops_session(agent.general, question["ts"])
        session = agent.slack.world.sessions[agent.general["id"], question["ts"]]
        await agent.slack.until(lambda: session["status"] == "active")
        assert await agent.value("SELECT status FROM turns") == "running"
        session["status"] = "processing"
        await agent.ann.stops_session(agent.general, question["ts"])
        await agent.until_value(1, DELIVERED)

        assert await agent.value("SELECT status FROM turns") == "cancelled"
        assert len(agent.ann.written(agent.general, question["ts"])) == 1
        await agent.slack.until(lambda: session["status"] == "active")


async def test_the_status_of_an_answer_ends_also_when_slack_does_not_accept_that_at_once(
    agent: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("At last.", delay=1.5)])
    agent.slack.fail("chat.startStream", error="feature_not_enabled")
    for _ in range(4):
        agent.slack.fail("agents.sessions.setStatus", only={"status": "active"}, is_cut=True)
    agent.slack.fail("agents.sessions.setStatus", only={"status": "active"}, retry_after=1)
    async with agent.opened(address, model):
        question = await agent.ann.direct("hello")
        await agent.until_value(1, DELIVERED)

        session = agent.slack.world.sessions[agent.ann.dm["id"], question["ts"]]
        await agent.slack.until(lambda: session["status"] == "active")


async def test_a_session_is_suspended_only_while_somebody_is_asked(
    agent: Scene, address: Address, model: OpenAIStub
) -> None:
    office = Office()
    model.play([Answer(tool_calls=[MAIL]), Answer("Sent."), Answer(tool_calls=[MAIL])])
    async with agent.opened(address, model):
        agent.parley.app.tools.mcp.offer(office.tools())
        await agent.sql("INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'slack')")
        question = await agent.ann.direct("mail Bob")
        await agent.until_value(1, DELIVERED)
        session = agent.slack.world.sessions[agent.ann.dm["id"], question["ts"]]
        assert session["status"] == "suspended"
        await agent.ann.direct("yes", thread_ts=question["ts"])
        await agent.until_value(2, DELIVERED)
        await agent.slack.until(lambda: session["status"] == "active")
        assert office.sent == [("bob", "See you at eight.")]

        await agent.ann.direct("again", thread_ts=question["ts"])
        await agent.until_value(3, DELIVERED)
        assert session["status"] == "suspended"
        await age(agent.parley, 11)
    async with agent.opened(address, model):
        # Nobody has answered in time.
        await agent.slack.until(lambda: session["status"] == "active")


async def test_a_long_question_is_a_short_title_in_whole_characters(
    agent: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("At last.", delay=1.5)])
    async with agent.opened(address, model):
        question = await agent.ann.direct("what  is\n" + "👩‍🚀" * 30)
        await agent.until_value(1, DELIVERED)

        title = agent.slack.world.sessions[agent.ann.dm["id"], question["ts"]]["title"]
        assert title == "what is " + "👩‍🚀" * 17 + "…"
        await agent.ann.deletes(agent.ann.dm, question["ts"])
        session = agent.slack.world.sessions[agent.ann.dm["id"], question["ts"]]
        await agent.slack.until(lambda: session["title"] == "Conversation")


async def test_after_a_restart_missed_messages_are_roots_as_well(
    agent: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("Before."), Answer("After.")])
    async with agent.opened(address, model):
        await agent.ann.direct("hello")
        await agent.until_value(1, DELIVERED)
        await agent.until_value(1, "SELECT count(*) FROM shards WHERE seen_id IS NOT NULL")
    await agent.slack.socket.until_gone()
    missed = await agent.ann.direct("are you there?", is_heard=False)

    async with agent.opened(address, model):
        await agent.until_value(2, DELIVERED)
    assert agent.ann.reads(thread_ts=missed["ts"]) == ["After."]


async def test_an_app_with_the_older_panel_answers_direct_messages_without_a_thread(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    scene.slack.is_old_app = True
    await scene.slack.make_app(build_manifest(scene.own, None, has_panel=True))
    model.play([Answer("In the panel.", delay=1.2), Answer("Directly.")])
    async with scene.opened(address, model):
        thread_ts = await scene.ann.opens_assistant(scene.general)
        thread = scene.slack.world.assistant_threads[scene.ann.dm["id"], thread_ts]
        await scene.slack.until(lambda: thread["prompts"])
        await scene.ann.direct("hello", thread_ts=thread_ts)
        await scene.until_value(1, DELIVERED)
        await scene.ann.direct("hello")
        await scene.until_value(2, DELIVERED)

        (direct,) = [message for message in scene.ann.written() if message["text"] == "Directly."]
        assert "thread_ts" not in direct
        assert thread["statuses"][0] == "is thinking …"
        assert len(scene.slack.calls("agents.sessions.setStatus")) == 1
        other_ts = await scene.ann.opens_assistant(scene.general)
        other = scene.slack.world.assistant_threads[scene.ann.dm["id"], other_ts]
        await scene.ann.direct("please /credential set pms opens-nothing", thread_ts=other_ts)
        await scene.slack.until(lambda: other["title"])
        assert other["title"] == "please /credential set pms [removed]"
