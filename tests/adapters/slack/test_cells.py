"""An app whose workspaces live in two cells."""

import asyncio

import pytest

from adapters.cells.moves import move_server, statements
from adapters.chat.buttons import EDITED_LABEL
from tests.adapters.slack.conftest import Scene
from tests.adapters.web.conftest import say_it_back
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.cells import CellDatabases
from tests.support.connections import connected, until_somebody_waits
from tests.support.slack_cells import Workspace, open_workspace

CHOICES = {"question": "Bike or boat?", "options": ["Fred", "Boat"]}
WAITS = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())
"""
# What is kept of each workspace.
ROWS = (
    """INSERT INTO slack_paces (team_id, method, platform_channel_id, next_call_at, distance_seconds)
    VALUES ($1, 'chat.postMessage', 'C0', now(), 1.1)""",
    "INSERT INTO slack_group_lists (team_id, read_at) VALUES ($1, now())",
    """INSERT INTO slack_group_members (list_id, platform_user_id, group_id, group_name)
    SELECT id, 'U0', 'S0', 'crew' FROM slack_group_lists WHERE team_id = $1""",
)
TOKENS = "SELECT team_id, token IS NOT NULL AS is_installed FROM slack_installations ORDER BY team_id"


@pytest.mark.parametrize("by_http", [False, True], ids=["socket", "http"])
async def test_a_workspace_is_served_by_its_cell_and_the_others_by_theirs(
    scene: Scene, cell_databases: CellDatabases, model: OpenAIStub, by_http: bool
) -> None:
    async with open_workspace(scene, cell_databases, model, by_http=by_http) as workspace:
        cells, fred, pier = workspace.cells, workspace.fred, workspace.pier
        assert "Parley is in Lake now." in await workspace.installs()
        await fred.mentions(pier, "before")
        assert await workspace.heard(fred, pier) == ["You said: fred: before"]
        await workspace.moves()

        question = await fred.mentions(pier, "after")
        await workspace.scene.ann.mentions(workspace.scene.general, "at home")
        assert await workspace.heard(fred, pier, 2) == ["You said: fred: before", "You said: fred: after"]
        assert await workspace.heard(workspace.scene.ann, workspace.scene.general) == ["You said: ann: at home"]
        # In its threads no mention is needed, and there are files.
        await fred.posts(pier, "a list", thread_ts=question["ts"], files=[("list.txt", b"rope, paddle")])
        await fred.hears(pier, 3)
        assert await cells.sql("b", "SELECT filename, status FROM file_records") == [("list.txt", "stored")]
        await fred.direct("alone")
        await fred.hears()
        command = await fred.slash(pier, "/parley", "budget")
        assert "tokens" in (await command.answered())[0]
        await fred.opens_home()
        await workspace.scene.slack.until(lambda: fred.home)
        await workspace.until_count("b", 5)
        await workspace.until_count("a", 1)
        assert await cells.sql("a", TOKENS) == []
        assert [tuple(row) for row in await cells.sql("b", TOKENS)] == [(workspace.team_id, True)]


async def test_messages_of_a_workspace_that_moves_are_answered_once(workspace: Workspace) -> None:
    fred, pier, cells = workspace.fred, workspace.pier, workspace.cells
    async with connected(cells.addresses["a"]) as owner:
        for team in (workspace.team_id, workspace.scene.slack.team_id):
            for statement in ROWS:
                await owner.execute(statement, team)
    first = await fred.mentions(pier, "first")
    await fred.hears(pier)

    written = [asyncio.create_task(fred.mentions(pier, f"during {number}")) for number in range(6)]
    lines = await workspace.moves()
    await asyncio.gather(*written)
    await fred.posts(pier, "after", thread_ts=first["ts"])
    await workspace.until_count("b", 8)
    await cells.until("b", "SELECT bool_and(status = 'delivered') FROM outbox")

    answers = await workspace.heard(fred, pier, 8)
    assert sorted(answers) == sorted(
        ["You said: fred: first", *(f"You said: fred: during {number}" for number in range(6)), "You said: fred: after"]
    )
    assert not [line for line in lines if "left out" in line]
    for table in ("slack_paces", "slack_group_lists", "slack_group_members"):
        assert [await cells.count(cell, table) for cell in "ab"] == [1, 1]
    assert [row["team_id"] for row in await cells.sql("b", "SELECT team_id FROM slack_paces")] == [workspace.team_id]
    assert await cells.count("a") == 0


async def test_on_the_way_messages_and_typed_commands_wait_and_everything_else_is_put_off(
    workspace: Workspace,
) -> None:
    fred, pier, cells = workspace.fred, workspace.pier, workspace.cells
    first = await fred.mentions(pier, "first")
    await fred.hears(pier)
    async with cells.moving("a", "b", workspace.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
        await cells.until_routed("slack", workspace.team_id, "a", "b")
        # Where the workspace comes from, it is a thread of the agent's.
        await fred.posts(pier, "in between", thread_ts=first["ts"])
        await workspace.until_count("b", 1, "status = 'waiting'")
        command = asyncio.create_task(fred.direct("/budget"))
        slash = await fred.slash(pier, "/parley", "budget")
        assert "is being moved" in (await slash.answered())[0]
        click = await fred.presses(pier, fred.written(pier)[0], "🔄")
        assert "is being moved" in (await click.answered())[0]
        assert click.is_acked
        await move_server(moving, lambda _line: None, seconds=60)
    await command
    assert await workspace.heard(fred, pier, 2) == ["You said: fred: first", "You said: fred: in between"]
    assert "tokens" in (await fred.hears())[0]
    await workspace.until_count("b", 3)
    assert await cells.count("a") == 0


async def test_a_thread_that_begins_on_the_way_needs_no_second_mention(workspace: Workspace) -> None:
    fred, pier, cells = workspace.fred, workspace.pier, workspace.cells
    async with cells.moving("a", "b", workspace.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
        await cells.until_routed("slack", workspace.team_id, "a", "b")
        root = await fred.mentions(pier, "a new thread")
        await workspace.until_count("b", 1, "status = 'waiting'")
        await fred.posts(pier, "one more thing", thread_ts=root["ts"])
        await workspace.until_count("b", 2, "status = 'waiting'")
        await move_server(moving, lambda _line: None, seconds=60)
    await workspace.until_count("b", 2)


async def test_a_door_that_has_not_heard_of_a_move_loses_no_message(workspace: Workspace) -> None:
    fred, pier, cells = workspace.fred, workspace.pier, workspace.cells
    first = await fred.mentions(pier, "first")
    await fred.hears(pier)
    for cell in "ab":
        await cells.sql(cell, "ALTER TABLE cell_servers DISABLE TRIGGER parley_announce_change")
    await workspace.moves()
    assert cells.cells.find("slack", workspace.team_id) == ("a",)
    await fred.posts(pier, "and then?", thread_ts=first["ts"])
    assert await workspace.heard(fred, pier, 2) == ["You said: fred: first", "You said: fred: and then?"]
    await workspace.until_count("b", 2)
    # Slack had to repeat nothing.
    assert {envelope.attempt for envelope in workspace.scene.slack.journal.envelopes} == {0}


async def test_a_form_that_is_sent_while_its_workspace_moves_stays_open(workspace: Workspace) -> None:
    fred, pier, cells = workspace.fred, workspace.pier, workspace.cells
    message = await fred.posts(pier, "a bike and a boat")
    view = await (await fred.shortcut(pier, message, "ask_parley")).view()
    async with cells.moving("a", "b", workspace.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
        await cells.until_routed("slack", workspace.team_id, "a", "b")
        refused = await fred.submits(view, question="Which one?")
        assert refused.response["response_action"] == "errors"
        assert "is being moved" in str(refused.response["errors"]["question"])
        await move_server(moving, lambda _line: None, seconds=60)
    assert (await fred.submits(view, question="Which one?")).response == {}
    await workspace.until_count("b", 1)
    assert "Which one?" in (await fred.hears(pier))[0]


async def test_buttons_edits_and_deletions_find_what_has_moved(workspace: Workspace, model: OpenAIStub) -> None:
    fred, pier, cells = workspace.fred, workspace.pier, workspace.cells
    await cells.sql("a", "INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'slack')")
    model.play([Answer(tool_calls=[("dialogue__ask_question", CHOICES)]), Answer("A boat it is.")])
    order = await fred.mentions(pier, "choose for me")
    await fred.hears(pier)
    await workspace.until_count("a", 1)
    await workspace.moves()
    await fred.presses(pier, fred.written(pier)[0], "Boat")
    assert (await fred.hears(pier, 2))[1] == "A boat it is."
    await workspace.until_count("b", 2)

    model.play(say_it_back)
    bot = workspace.scene.slack.world.installation_of(workspace.team_id)
    assert bot is not None
    await fred.edits(pier, order, f"<@{bot.bot['id']}> choose wisely")
    await workspace.until_count("b", 1, "content = 'choose wisely'")
    await workspace.scene.slack.until(lambda: EDITED_LABEL in str(fred.written(pier)[0].get("blocks")))
    await fred.presses(pier, fred.written(pier)[0], EDITED_LABEL)
    await fred.hears(pier, 3)
    await fred.deletes(pier, order)
    await workspace.until_count("b", 0, "content = 'choose wisely' AND again_of IS NULL")
    assert await cells.count("a") == 0


async def test_what_is_deleted_while_its_row_moves_is_in_neither_cell(workspace: Workspace) -> None:
    fred, pier, cells = workspace.fred, workspace.pier, workspace.cells
    message = await fred.mentions(pier, "my number is 4711")
    await fred.hears(pier)
    await workspace.until_count("a", 1)
    async with connected(cells.addresses["b"]) as holder, holder.transaction():
        # The last step of a move waits for it: the rows are deleted in one cell, and not to be seen in the other one.
        await holder.execute("LOCK TABLE inbox IN ROW EXCLUSIVE MODE")
        moving = asyncio.create_task(workspace.moves())
        await until_somebody_waits(holder)
        deleting = asyncio.create_task(fred.deletes(pier, message))
        await cells.until("a", WAITS)
    await moving
    await deleting
    await workspace.until_count("b", 0, "content LIKE '%4711%'")


async def test_the_app_is_installed_and_removed_in_the_cell_of_the_workspace(workspace: Workspace) -> None:
    fred, cells = workspace.fred, workspace.cells
    await workspace.moves()
    await fred.removes_app()
    ended_in_b = "SELECT count(*) = 1 FROM slack_installations WHERE token IS NULL AND ended_because IS NOT NULL"
    await cells.until("b", ended_in_b)

    await workspace.installs()
    assert [tuple(row) for row in await cells.sql("b", TOKENS)] == [(workspace.team_id, True)]
    assert await cells.sql("a", TOKENS) == []
    await fred.direct("back again")
    assert await workspace.heard(fred) == ["You said: back again"]
    async with cells.moving("b", "a", workspace.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "b")
        await moving.fetch(moving.source, statements.begin_departure, "a")
        status, page = await fred.installs(f"{cells.client.base_url}/slack/install")
        assert (status, "is being moved" in page) == (503, True)
        await move_server(moving, lambda _line: None, seconds=60)
    assert [tuple(row) for row in await cells.sql("a", TOKENS)] == [(workspace.team_id, True)]


async def test_in_a_shared_channel_each_is_served_by_the_workspace_of_the_app(workspace: Workspace) -> None:
    scene, fred, cells = workspace.scene, workspace.fred, workspace.cells
    await workspace.moves()
    scene.slack.world.share(scene.general, workspace.team)
    fred.joins(scene.general)
    # The home workspace's bot is the one in the channel.
    await fred.mentions(scene.general, "over here")
    assert await workspace.heard(fred, scene.general) == ["You said: fred: over here"]
    again = await fred.presses(scene.general, fred.written(scene.general)[0], "🔄")
    assert again.is_acked
    await fred.hears(scene.general, 2)
    await workspace.until_count("a", 2)
    assert await cells.count("b") == 0


async def test_a_click_in_a_shared_channel_finds_a_workspace_that_has_moved_unheard(workspace: Workspace) -> None:
    scene, pier, cells = workspace.scene, workspace.pier, workspace.cells
    scene.slack.world.share(pier, scene.slack.installation.team)
    scene.ann.joins(pier)
    await scene.ann.mentions(pier, "over here")
    await workspace.heard(scene.ann, pier)
    await workspace.until_count("a", 1)
    for cell in "ab":
        await cells.sql(cell, "ALTER TABLE cell_servers DISABLE TRIGGER parley_announce_change")
    await workspace.moves()
    assert cells.cells.find("slack", workspace.team_id) == ("a",)
    again = await scene.ann.presses(pier, scene.ann.written(pier)[0], "🔄")
    assert "gone" not in str(await again.answered())
    await workspace.until_count("b", 2)


async def test_a_shortcut_on_a_message_of_another_workspace_is_that_of_who_uses_it(
    workspace: Workspace,
) -> None:
    scene, fred, pier, cells = workspace.scene, workspace.fred, workspace.pier, workspace.cells
    await workspace.moves()
    scene.slack.world.share(pier, scene.slack.installation.team)
    message = await scene.ann.posts(pier, "a bike and a boat")
    view = await (await fred.shortcut(pier, message, "ask_parley")).view()
    assert (await fred.submits(view, question="Which one?")).response == {}
    assert "Which one?" in (await fred.hears(pier))[0]
    await workspace.until_count("b", 1)
    assert await cells.count("a") == 0


@pytest.mark.parametrize("is_home", [False, True], ids=["installed", "home"])
async def test_what_is_said_while_a_move_is_cancelled_is_answered_where_the_workspace_stays(
    workspace: Workspace, is_home: bool
) -> None:
    scene, cells = workspace.scene, workspace.cells
    person, channel = (scene.ann, scene.general) if is_home else (workspace.fred, workspace.pier)
    team_id = scene.slack.team_id if is_home else workspace.team_id
    first = await person.mentions(channel, "first")
    await workspace.until_count("a", 1)
    async with cells.moving("a", "b", team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
    async with cells.moving("b", "a", team_id, platform="slack") as moving:
        await moving.fetch(moving.source, statements.begin_departure, "a")
        await moving.fetch(moving.target, statements.begin_arrival, "b")
        await cells.until_routed("slack", team_id, "b", "a")
        # In a thread of the agent's no mention is needed.
        await person.posts(channel, "on the way back", thread_ts=first["ts"])
        await workspace.until_count("a", 1, "status = 'waiting'")
        await move_server(moving, lambda _line: None, seconds=60)
    assert len(await person.hears(channel, 2)) == 2
    assert await cells.count("b") == 0
