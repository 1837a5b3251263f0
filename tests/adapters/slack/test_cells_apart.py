"""A cell that is away or behind, and an app that has a cell for itself."""

import asyncio
import time
from dataclasses import replace

import pytest
from pydantic import SecretStr

from adapters.cells.moves import move_server, statements
from adapters.slack.platform import SlackPlatform
from tests.adapters.slack.conftest import Scene
from tests.adapters.web.conftest import open_site
from tests.standins.openai_api import OpenAIStub
from tests.support.cells import CellDatabases, door_settings
from tests.support.chat_scene import ended
from tests.support.connections import connected, until_somebody_waits
from tests.support.parley import open_parley
from tests.support.slack_cells import Workspace, open_workspace

MOVES_OR_WAITS = """
SELECT EXISTS (SELECT FROM cell_servers WHERE state = 'moved') OR EXISTS (
    SELECT FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND wait_event = 'relation' AND datname = current_database()
)
"""


async def test_what_was_missed_is_read_for_each_cell(workspace: Workspace) -> None:
    scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
    await scene.ann.mentions(scene.general, "home")
    await fred.mentions(pier, "workspace")
    await fred.hears(pier)
    await scene.ann.hears(scene.general)
    await workspace.until_count("a", 2)
    await workspace.moves()
    await cells.until("a", "SELECT EXISTS (SELECT FROM shards WHERE seen_id IS NOT NULL)")
    await ended(workspace.door)
    await scene.slack.socket.until_gone()
    await fred.mentions(pier, "missed at the workspace", is_heard=False)
    await scene.ann.mentions(scene.general, "missed at home", is_heard=False)

    platform = scene.parley.app.senders["slack"]
    assert isinstance(platform, SlackPlatform)
    workspace.door = asyncio.create_task(platform.listen(scene.parley.app))
    assert (await workspace.heard(fred, pier, 2))[1] == "You said: fred: missed at the workspace"
    assert (await workspace.heard(scene.ann, scene.general, 2))[1] == "You said: ann: missed at home"
    await workspace.until_count("b", 2)
    await workspace.until_count("a", 2)


async def test_what_comes_for_a_cell_that_is_away_is_not_accepted_and_comes_again(workspace: Workspace) -> None:
    scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
    await workspace.moves()
    # The door has heard of it.
    await cells.until_routed("slack", workspace.team_id, "b")
    away = cells.cells.apps.pop("b")
    scene.slack.delivery.retry_delays, scene.slack.delivery.ack_seconds = (0.1,) * 1000, 0.5
    asking = asyncio.create_task(fred.mentions(pier, "are you there?"))
    await scene.slack.until(lambda: len(scene.slack.journal.envelopes) > 2)
    command = await fred.slash(pier, "/parley", "budget")
    assert "can't be reached just now" in (await command.answered())[0]
    await scene.ann.mentions(scene.general, "and at home?")
    assert await workspace.heard(scene.ann, scene.general) == ["You said: ann: and at home?"]

    await cells.cells.add("b", away)
    await asking
    assert await workspace.heard(fred, pier) == ["You said: fred: are you there?"]
    await workspace.until_count("b", 1)


async def test_what_a_cell_that_is_away_missed_for_longer_than_slack_repeats_is_taken_up_when_it_is_back(
    workspace: Workspace,
) -> None:
    scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
    await workspace.moves()
    before = await fred.mentions(pier, "before")
    await fred.hears(pier)
    await workspace.until_count("b", 1)
    away = cells.cells.apps.pop("b")
    scene.slack.delivery.retry_delays = ()
    scene.slack.delivery.ack_seconds = 0.5
    await fred.mentions(pier, "are you there?")
    await fred.posts(pier, "one more thing", thread_ts=before["ts"])
    await fred.deletes(pier, before)
    # Slack has given each of them up.
    await scene.slack.until(lambda: [one.acked_at for one in scene.slack.journal.envelopes][-4:] == [None] * 4)
    await scene.ann.mentions(scene.general, "and at home?")
    assert await workspace.heard(scene.ann, scene.general) == ["You said: ann: and at home?"]

    await cells.cells.add("b", away)
    await workspace.until_count("b", 3)
    answers = [text for text in await workspace.heard(fred, pier, 3) if "before" not in text]
    assert sorted(answers) == ["You said: fred: are you there?", "You said: fred: one more thing"]
    await workspace.until_count("b", 0, "content = 'before'")


async def test_what_was_missed_is_read_after_any_number_of_starts_while_its_cell_is_away(
    workspace: Workspace,
) -> None:
    scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
    await fred.mentions(pier, "before")
    await fred.hears(pier)
    await workspace.until_count("a", 1)
    await workspace.moves()
    await ended(workspace.door)
    await scene.slack.socket.until_gone()
    noted = "UPDATE shards SET leased_until = NULL, seen_id = extract(epoch FROM now() - interval '1 hour')::text"
    await cells.sql("a", noted)
    half_an_hour_ago = f"{time.time() - 1800:.6f}"
    await fred.mentions(pier, "half an hour ago", ts=half_an_hour_ago, is_heard=False)
    away = cells.cells.apps.pop("b")

    async def listen() -> asyncio.Task[None]:
        platform = SlackPlatform(scene.own)
        platform.cells = cells.cells
        return asyncio.create_task(platform.listen(scene.parley.app))

    first = await listen()
    # It has noted how far it is.
    await cells.until("a", "SELECT leased_until IS NOT NULL FROM shards")
    await ended(first)
    await scene.slack.socket.until_gone()
    await cells.cells.add("b", away)
    workspace.door = await listen()
    assert (await workspace.heard(fred, pier, 2))[1] == "You said: fred: half an hour ago"


async def test_what_both_cells_refuse_after_a_start_is_read_again_when_the_move_has_ended(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
    await fred.mentions(pier, "before")
    await fred.hears(pier)
    await workspace.until_count("a", 1)
    await cells.until("a", "SELECT EXISTS (SELECT FROM shards WHERE seen_id IS NOT NULL)")
    await ended(workspace.door)
    await scene.slack.socket.until_gone()
    async with cells.moving("a", "b", workspace.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
    async with cells.moving("b", "a", workspace.team_id, platform="slack") as moving:
        # Whoever cancels it dies here: one cell stores nothing any more, and the other one nothing yet.
        await moving.fetch(moving.source, statements.begin_departure, "a")
        await fred.mentions(pier, "while nobody listens", is_heard=False)
        platform = scene.parley.app.senders["slack"]
        assert isinstance(platform, SlackPlatform)
        workspace.door = asyncio.create_task(platform.listen(scene.parley.app))
        printed = ""
        async with asyncio.timeout(60):
            while "slack_workspace_waits" not in printed:
                printed += capsys.readouterr().out
                await asyncio.sleep(0.02)
        await move_server(moving, lambda _line: None, seconds=60)
    assert (await workspace.heard(fred, pier, 2))[1] == "You said: fred: while nobody listens"
    assert await cells.count("b") == 0


async def test_an_installation_that_is_stored_while_its_workspace_begins_to_move_goes_along(
    scene: Scene, cell_databases: CellDatabases, model: OpenAIStub
) -> None:
    async with open_workspace(scene, cell_databases, model, by_http=False) as workspace:
        cells, team_id = workspace.cells, workspace.team_id
        async with connected(cells.addresses["a"]) as holder:
            transaction = holder.transaction()
            await transaction.start()
            # Whoever notes the workspace waits for it.
            await holder.execute("INSERT INTO servers (platform, platform_server_id) VALUES ('slack', $1)", team_id)
            installing = asyncio.create_task(workspace.installs())
            await until_somebody_waits(holder)
            moving = asyncio.create_task(workspace.moves())
            await cells.until("a", MOVES_OR_WAITS)
            await transaction.rollback()
        assert "Parley is in Lake now." in await installing
        await moving
        assert await cells.sql("a", "SELECT FROM slack_installations") == []
        assert len(await cells.sql("b", "SELECT FROM slack_installations WHERE token IS NOT NULL")) == 1
        await workspace.fred.direct("hello")
        assert await workspace.heard(workspace.fred) == ["You said: hello"]


async def test_an_app_that_listens_both_ways_takes_each_message_once_while_its_workspace_moves(
    scene: Scene, cell_databases: CellDatabases, model: OpenAIStub
) -> None:
    both = replace(scene, own=replace(scene.own, signing_secret=SecretStr(scene.slack.signing_secret)))
    async with open_workspace(both, cell_databases, model, by_http=False) as workspace:
        delivery, journal = workspace.scene.slack.delivery, workspace.scene.slack.journal
        fred, pier, cells = workspace.fred, workspace.pier, workspace.cells
        await workspace.installs()

        async def mentions(text: str) -> None:
            """Let Fred write by the socket, and send the same by HTTP."""
            delivery.addresses.clear()
            await fred.mentions(pier, text)
            taken = await workspace.scene.slack.until(
                lambda: [one for one in journal.envelopes if one.acked_at and text in str(one.payload)]
            )
            await delivery.deliver_to(f"{cells.client.base_url}/slack/events")
            assert (await delivery.give("events_api", taken[0].payload)).status == 200

        await mentions("before")
        await fred.hears(pier)
        await workspace.until_count("a", 1)
        async with cells.moving("a", "b", workspace.team_id, platform="slack") as moving:
            await moving.fetch(moving.target, statements.begin_arrival, "a")
            await moving.fetch(moving.source, statements.begin_departure, "b")
            await mentions("during")
            await workspace.until_count("b", 1, "status = 'waiting'")
            await move_server(moving, lambda _line: None, seconds=60)
        await mentions("after")
        answers = await workspace.heard(fred, pier, 3)
        await workspace.until_count("b", 3)
    assert sorted(answers) == [f"You said: fred: {text}" for text in ("after", "before", "during")]


async def test_a_second_app_has_a_door_of_its_own(
    scene: Scene, cell_databases: CellDatabases, model: OpenAIStub
) -> None:
    async with open_workspace(scene, cell_databases, model, by_http=True) as workspace:
        scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
        await workspace.installs()
        await workspace.moves()
        other = replace(scene.own, bot_token=None, signing_secret=SecretStr("the second app's"))
        platform, settings = SlackPlatform(other), door_settings(scene.settings)
        platform.cells = cells.cells
        async with (
            open_parley(settings, cells.addresses["a"], model, senders={"slack": platform}, works=False) as door,
            open_site(door) as site,
        ):
            await scene.ann.mentions(scene.general, "by the first door")
            assert await workspace.heard(scene.ann, scene.general) == ["You said: ann: by the first door"]
            scene.slack.signing_secret = "the second app's"
            await scene.slack.delivery.deliver_to(f"{site.url}/slack/events")
            await fred.mentions(pier, "by the second")
            assert await workspace.heard(fred, pier) == ["You said: fred: by the second"]
            await workspace.until_count("b", 1)
            await workspace.until_count("a", 1)
