"""What a cell that is away was sent for longer than Slack repeats it: wherever it was said."""

import asyncio
import time

import pytest

from adapters.slack.platform import SlackPlatform
from tests.adapters.slack.conftest import Scene
from tests.support.chat_scene import ended
from tests.support.slack_cells import Workspace

KNOWN_PLACES = """
INSERT INTO conversations (platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct)
SELECT 'slack', '{team}', 'C' || number, number || '.000001', false FROM generate_series(1, 300) AS number
"""


@pytest.fixture
async def hasty(workspace: Workspace) -> Workspace:
    """A workspace in cell b; an event that is not accepted does not come again."""
    await workspace.moves()
    await workspace.cells.until_routed("slack", workspace.team_id, "b")
    workspace.scene.slack.delivery.retry_delays, workspace.scene.slack.delivery.ack_seconds = (), 0.5
    return workspace


async def until_given_up(scene: Scene, count: int) -> None:
    """Return once Slack has given up so many events."""
    await scene.slack.until(lambda: sum(one.acked_at is None for one in scene.slack.journal.envelopes) >= count)


async def until_waiting(capsys: pytest.CaptureFixture[str]) -> None:
    """Return once the door has noted that a workspace waits."""
    printed = ""
    async with asyncio.timeout(60):
        while "slack_workspace_waits" not in printed:
            printed += capsys.readouterr().out
            await asyncio.sleep(0.02)


async def test_a_first_mention_in_a_channel_and_one_in_a_thread_of_others_are_answered_when_the_cell_is_back(
    hasty: Workspace,
) -> None:
    scene, fred, pier, cells = hasty.scene, hasty.fred, hasty.pier, hasty.cells
    root = await fred.posts(pier, "to you all", ts="1700000000.000001", is_heard=False)
    away = cells.cells.apps.pop("b")
    await fred.mentions(pier, "at the pier")
    await fred.mentions(pier, "in a thread", thread_ts=root["ts"])
    await until_given_up(scene, 4)
    await cells.cells.add("b", away)
    await hasty.until_count("b", 2)
    answers = [text for text in await hasty.heard(fred, pier, 2) if text.startswith("You said: fred: ")]
    assert sorted(text.removeprefix("You said: fred: ") for text in answers) == ["at the pier", "in a thread"]


async def test_only_the_places_of_what_was_refused_are_read(hasty: Workspace) -> None:
    scene, fred, pier, cells = hasty.scene, hasty.fred, hasty.pier, hasty.cells
    await cells.sql("b", KNOWN_PLACES.format(team=hasty.team_id))
    away = cells.cells.apps.pop("b")
    await fred.mentions(pier, "at the pier")
    await until_given_up(scene, 2)
    await cells.cells.add("b", away)
    await hasty.until_count("b", 1)
    channels = [call.args["channel"] for call in scene.slack.calls("conversations.history")]
    assert channels == [pier["id"]]


async def test_a_history_of_no_form_is_read_again_and_nothing_is_forgotten(hasty: Workspace) -> None:
    scene, fred, pier, cells = hasty.scene, hasty.fred, hasty.pier, hasty.cells
    away = cells.cells.apps.pop("b")
    await fred.mentions(pier, "at the pier")
    await until_given_up(scene, 2)
    scene.slack.fail("conversations.history", body={"ok": True, "messages": None})
    await cells.cells.add("b", away)
    await hasty.until_count("b", 1)
    assert len(scene.slack.calls("conversations.history")) == 2


async def test_other_events_wait_in_little_memory_and_it_is_told_which_are_lost(
    hasty: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, fred, pier, cells = hasty.scene, hasty.fred, hasty.pier, hasty.cells
    message = await fred.mentions(pier, "before")
    await hasty.until_count("b", 1)
    away = cells.cells.apps.pop("b")
    printed = ""
    event = {"user": fred.id, "channel": fred.dm["id"], "tab": "messages", "view": "x" * 1_000_000}
    for _ in range(12):
        await scene.slack.events.in_team("app_home_opened", event, hasty.team_id)
    async with asyncio.timeout(60):
        while printed.count("slack_event_lost") < 4:
            printed += capsys.readouterr().out
            await asyncio.sleep(0.02)
    await cells.cells.add("b", away)
    await fred.deletes(pier, message)
    await hasty.until_count("b", 0, "content = 'before'")
    assert printed.count("slack_event_lost") == 4


async def test_a_workspace_whose_history_can_not_be_read_keeps_no_other_waiting_after_a_start(
    workspace: Workspace,
) -> None:
    scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
    await scene.ann.mentions(scene.general, "home")
    await scene.ann.hears(scene.general)
    await fred.mentions(pier, "workspace")
    await fred.hears(pier)
    await workspace.until_count("a", 2)
    # Its places were used last, and are read first.
    await cells.sql("a", KNOWN_PLACES.format(team=workspace.team_id))
    await cells.until("a", "SELECT EXISTS (SELECT FROM shards WHERE seen_id IS NOT NULL)")
    await ended(workspace.door)
    await scene.slack.socket.until_gone()
    await scene.ann.mentions(scene.general, "missed at home", is_heard=False)
    installation = scene.slack.world.installation_of(workspace.team_id)
    assert installation is not None
    installation.error = "account_inactive"

    platform = scene.parley.app.senders["slack"]
    assert isinstance(platform, SlackPlatform)
    workspace.door = asyncio.create_task(platform.listen(scene.parley.app))
    assert (await workspace.heard(scene.ann, scene.general, 2))[1] == "You said: ann: missed at home"


async def test_what_was_deleted_or_edited_before_slack_repeats_it_is_not_read_as_it_was(workspace: Workspace) -> None:
    scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
    await workspace.moves()
    await cells.until_routed("slack", workspace.team_id, "b")
    scene.slack.delivery.retry_delays, scene.slack.delivery.ack_seconds = (0.2,) * 1000, 0.5
    root = await fred.posts(pier, "to you all")
    away = cells.cells.apps.pop("b")
    deleted = await fred.mentions(pier, "my number is 4711")
    reply = await fred.mentions(pier, "my number is 4712", thread_ts=root["ts"])
    edited = await fred.mentions(pier, "how many boats?", thread_ts=root["ts"])
    await until_given_up(scene, 6)
    for message in (deleted, reply):
        await fred.deletes(pier, message)
    await fred.edits(pier, edited, edited["text"].replace("boats", "bikes"))
    await cells.cells.add("b", away)
    await workspace.until_count("b", 1)
    await fred.mentions(pier, "after")
    await workspace.until_count("b", 2)
    texts = [row["content"] for row in await cells.sql("b", "SELECT content FROM inbox ORDER BY id")]
    assert texts == ["how many bikes?", "after"]


async def test_what_one_door_was_sent_is_read_by_another_when_that_one_stops_before_the_cell_is_back(
    hasty: Workspace,
) -> None:
    scene, fred, cells = hasty.scene, hasty.fred, hasty.cells
    platform = SlackPlatform(scene.own)
    platform.cells = cells.cells
    other = asyncio.create_task(platform.listen(scene.parley.app))
    await scene.slack.socket.until(2)
    away, moment = cells.cells.apps.pop("b"), time.time() - 1800
    # Each door gets one.
    for number in range(2):
        await fred.direct(f"number {number}", ts=f"{moment + number:.6f}")
    await cells.until("a", "SELECT count(*) = 2 FROM shards WHERE shard_id > 0")
    await ended(hasty.door)
    hasty.door = other
    await cells.until("a", "SELECT count(*) = 1 FROM shards WHERE shard_id > 0")
    await cells.cells.add("b", away)
    await hasty.until_count("b", 2)
    await cells.until("a", "SELECT count(*) = 0 FROM shards WHERE shard_id > 0")


async def test_a_channel_that_was_flooded_is_read_in_order_page_by_page(hasty: Workspace) -> None:
    scene, fred, pier, cells = hasty.scene, hasty.fred, hasty.pier, hasty.cells
    away = cells.cells.apps.pop("b")
    for number in range(3):
        await fred.mentions(pier, f"number {number}")
        for _ in range(200):
            # More than is kept at once.
            scene.slack.world.keep_message(pier, "x" * 30_000, user=fred.id)
    await until_given_up(scene, 6)
    await cells.cells.add("b", away)
    await hasty.until_count("b", 3)
    rows = await cells.sql("b", "SELECT content FROM inbox ORDER BY id")
    assert [row["content"] for row in rows] == [f"number {number}" for number in range(3)]
    # Four pages, of which one did not stay.
    assert len(scene.slack.calls("conversations.history")) < 8


async def test_what_was_refused_is_stored_before_what_is_said_there_afterwards(
    hasty: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    fred, cells = hasty.fred, hasty.cells
    away = cells.cells.apps.pop("b")
    await fred.direct("first")
    await until_waiting(capsys)
    await cells.cells.add("b", away)
    await fred.direct("second")
    await hasty.until_count("b", 2)
    rows = await cells.sql("b", "SELECT content FROM inbox ORDER BY id")
    assert [row["content"] for row in rows] == ["first", "second"]
