"""What can't be done while a workspace moves, and has no answer of its own: it is told, or done afterwards."""

from typing import Any

import pytest

from adapters.cells.moves import move_server, statements
from adapters.chat.forms import MARK
from tests.adapters.slack.test_home import wait_for_home
from tests.support.slack_cells import Workspace

GRANT = (
    "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('slack', '{team}', '{group}', 'admin')"
)


@pytest.fixture
async def hasty(workspace: Workspace) -> Workspace:
    """A workspace where Fred has written once, and an event that is not accepted does not come again."""
    workspace.scene.slack.delivery.retry_delays = ()
    await workspace.fred.mentions(workspace.pier, "hello")
    await workspace.fred.hears(workspace.pier)
    await workspace.until_count("a", 1)
    return workspace


async def begin(workspace: Workspace, moving: Any) -> None:
    await moving.fetch(moving.target, statements.begin_arrival, "a")
    await moving.fetch(moving.source, statements.begin_departure, "b")
    await workspace.cells.until_routed("slack", workspace.team_id, "a", "b")


async def test_a_home_tells_that_its_workspace_moves_and_is_filled_afterwards(hasty: Workspace) -> None:
    scene, fred, cells = hasty.scene, hasty.fred, hasty.cells
    await cells.sql("a", "UPDATE users SET permission_level = 'admin'")
    await fred.opens_home()
    await wait_for_home(scene, fred, "This workspace")
    async with cells.moving("a", "b", hasty.team_id, platform="slack") as moving:
        await begin(hasty, moving)
        assert fred.home is not None
        await fred.presses_in_view(fred.home, "Change the budget")
        await wait_for_home(scene, fred, "is being moved", "This workspace")
        published = len(scene.slack.calls("views.publish"))
        await fred.opens_home()
        await scene.slack.until(lambda: len(scene.slack.calls("views.publish")) > published)
        assert (await wait_for_home(scene, fred, "This workspace")).count("is being moved") == 1
        await move_server(moving, lambda _line: None, seconds=60)
    await scene.slack.until(lambda: "is being moved" not in str(fred.home))
    await wait_for_home(scene, fred, "Your budget")
    assert scene.refusals() == []


async def test_who_leaves_a_group_while_the_workspace_moves_has_left_it_afterwards(hasty: Workspace) -> None:
    fred, pier, cells = hasty.fred, hasty.pier, hasty.cells
    group = hasty.scene.slack.world.add_user_group("Crew", [fred.user], team=hasty.team)
    await cells.sql("a", GRANT.format(team=hasty.team_id, group=group["id"]))
    await fred.mentions(pier, "I am of the crew")
    await cells.until("a", "SELECT count(*) = 1 FROM slack_group_members")
    await hasty.until_count("a", 2)
    async with cells.moving("a", "b", hasty.team_id, platform="slack") as moving:
        await begin(hasty, moving)
        await fred.changes_group(group, [])
        await hasty.scene.slack.until(
            lambda: [one for one in hasty.scene.slack.journal.envelopes if one.acked_at is None]
        )
        await move_server(moving, lambda _line: None, seconds=60)
    await cells.until("b", "SELECT count(*) = 0 FROM slack_group_members")


async def test_a_click_in_a_form_and_a_stop_are_answered_that_the_workspace_moves(hasty: Workspace) -> None:
    scene, fred, pier, cells = hasty.scene, hasty.fred, hasty.pier, hasty.cells
    message = await fred.posts(pier, "a bike and a boat")
    view = await (await fred.shortcut(pier, message, "ask_parley")).view()
    button = {"type": "button", "action_id": f"{MARK}:0", "text": {"type": "plain_text", "text": "Undo"}, "value": "x"}
    async with cells.moving("a", "b", hasty.team_id, platform="slack") as moving:
        await begin(hasty, moving)
        await fred.presses_in_view(view | {"blocks": [{"type": "actions", "elements": [button]}]}, "Undo")
        await scene.slack.until(lambda: "is being moved" in str(scene.slack.world.views[view["id"]]["blocks"]))
        stop = {"channel": pier["id"], "thread_ts": message["ts"], "user": fred.id}
        await scene.slack.events.in_team("agent_session_stopped", stop, hasty.team_id)
        await scene.slack.until(lambda: fred.whispers(pier))
        assert "is being moved" in str(fred.whispers(pier))
        await move_server(moving, lambda _line: None, seconds=60)
    assert scene.refusals() == []
