"""An app whose workspaces live in two cells: a door that listens for both, and a worker in each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from pydantic import SecretStr

from adapters.cells.moves import move_server, statements
from adapters.chat.buttons import EDITED_LABEL
from adapters.slack.platform import SlackPlatform
from shared.db.hosts import URL
from tests.adapters.slack.conftest import Scene
from tests.adapters.web.conftest import open_site, say_it_back
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Admin, Json, Person
from tests.support.cells import TwoCells, door_settings, open_cells
from tests.support.chat_scene import ended
from tests.support.connections import connected, until_somebody_waits
from tests.support.parley import open_parley
from tests.support.slack_transports import with_address

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


@dataclass
class Lake:
    """A workspace beside the first one: its admin Fred and its channel. `door` is a task, which can be ended."""

    scene: Scene
    cells: TwoCells
    team: Json
    fred: Admin
    pier: Json
    door: asyncio.Task[None]

    @property
    def team_id(self) -> str:
        return str(self.team["id"])

    async def installs(self) -> str:
        """Install the app; return the last page."""
        status, page = await self.fred.installs(f"{self.cells.client.base_url}/slack/install")
        assert status == 200, page
        installation = self.scene.slack.world.installation_of(self.team_id)
        assert installation is not None
        self.scene.slack.world.members[self.pier["id"]].add(installation.bot["id"])
        return page

    async def moves(self, source: str = "a", target: str = "b") -> list[str]:
        """Move it to another cell; return what the command says."""
        lines: list[str] = []
        async with self.cells.moving(source, target, self.team_id, platform="slack") as moving:
            await move_server(moving, lines.append, seconds=60)
        return lines

    async def heard(self, person: Person, channel: Json | None = None, count: int = 1) -> list[str]:
        """Return the first lines of the bot's messages as soon as there are this many."""
        return [text.partition("\n")[0] for text in await person.hears(channel, count)]

    async def until_count(self, cell: str, count: int, condition: str = "status = 'answered'") -> None:
        """Return once a cell has so many messages."""
        await self.cells.until(cell, f"SELECT count(*) = {count} FROM inbox WHERE {condition}")  # noqa: S608  # ours


@asynccontextmanager
async def opened_lake(scene: Scene, postgres: URL, model: OpenAIStub, *, by_http: bool) -> AsyncIterator[Lake]:
    """Open both cells with an app that anybody may install, and a door."""
    slack, secret = scene.slack, SecretStr(scene.slack.client_secret)
    slack.delivery.ack_seconds = 60
    own = replace(scene.own, client_id=slack.client_id, client_secret=secret)
    if by_http:
        own = replace(own, app_token=None, signing_secret=SecretStr(slack.signing_secret))
    scene = with_address(replace(scene, own=own, settings=door_settings(scene.settings)))
    async with open_cells(scene.settings, postgres, model, scene.build) as cells:
        scene.parley = cells.parleys["a"]
        platform = scene.parley.app.senders["slack"]
        assert isinstance(platform, SlackPlatform)
        platform.cells = cells.cells
        listening = asyncio.create_task(platform.listen(scene.parley.app))
        try:
            if by_http:
                url = f"{cells.client.base_url}/slack"
                urls = {"interactions": f"{url}/interactions", "commands": f"{url}/commands"}
                await slack.delivery.deliver_to(f"{url}/events", **urls)
            else:
                await slack.socket.until()
            team = slack.world.add_team("Lake")
            fred, pier = Admin(slack, "Fred", team=team), slack.world.add_channel("pier", team)
            fred.joins(pier)
            yield (lake := Lake(scene, cells, team, fred, pier, listening))
            listening = lake.door
        finally:
            await ended(listening)


@pytest.fixture
async def lake(scene: Scene, postgres: URL, model: OpenAIStub) -> AsyncIterator[Lake]:
    async with opened_lake(scene, postgres, model, by_http=False) as lake:
        await lake.installs()
        yield lake


@pytest.mark.parametrize("by_http", [False, True], ids=["socket", "http"])
async def test_a_workspace_is_served_by_its_cell_and_the_others_by_theirs(
    scene: Scene, postgres: URL, model: OpenAIStub, by_http: bool
) -> None:
    async with opened_lake(scene, postgres, model, by_http=by_http) as lake:
        cells, fred, pier = lake.cells, lake.fred, lake.pier
        assert "Parley is in Lake now." in await lake.installs()
        await fred.mentions(pier, "before")
        assert await lake.heard(fred, pier) == ["You said: fred: before"]
        await lake.moves()

        question = await fred.mentions(pier, "after")
        await lake.scene.ann.mentions(lake.scene.general, "at home")
        assert await lake.heard(fred, pier, 2) == ["You said: fred: before", "You said: fred: after"]
        assert await lake.heard(lake.scene.ann, lake.scene.general) == ["You said: ann: at home"]
        # In its threads no mention is needed, and there are files.
        await fred.posts(pier, "a list", thread_ts=question["ts"], files=[("list.txt", b"rope, paddle")])
        await fred.hears(pier, 3)
        assert await cells.sql("b", "SELECT filename, status FROM file_records") == [("list.txt", "stored")]
        await fred.direct("alone")
        await fred.hears()
        command = await fred.slash(pier, "/parley", "budget")
        assert "tokens" in (await command.answered())[0]
        await fred.opens_home()
        await lake.scene.slack.until(lambda: fred.home)
        await lake.until_count("b", 5)
        await lake.until_count("a", 1)
        assert await cells.sql("a", TOKENS) == []
        assert [tuple(row) for row in await cells.sql("b", TOKENS)] == [(lake.team_id, True)]


async def test_messages_of_a_workspace_that_moves_are_answered_once(lake: Lake) -> None:
    fred, pier, cells = lake.fred, lake.pier, lake.cells
    async with connected(cells.addresses["a"]) as owner:
        for team in (lake.team_id, lake.scene.slack.team_id):
            for statement in ROWS:
                await owner.execute(statement, team)
    first = await fred.mentions(pier, "first")
    await fred.hears(pier)

    written = [asyncio.create_task(fred.mentions(pier, f"during {number}")) for number in range(6)]
    lines = await lake.moves()
    await asyncio.gather(*written)
    await fred.posts(pier, "after", thread_ts=first["ts"])
    await lake.until_count("b", 8)
    await cells.until("b", "SELECT bool_and(status = 'delivered') FROM outbox")

    answers = await lake.heard(fred, pier, 8)
    assert sorted(answers) == sorted(
        ["You said: fred: first", *(f"You said: fred: during {number}" for number in range(6)), "You said: fred: after"]
    )
    assert not [line for line in lines if "left out" in line]
    for table in ("slack_paces", "slack_group_lists", "slack_group_members"):
        assert [await cells.count(cell, table) for cell in "ab"] == [1, 1]
    assert [row["team_id"] for row in await cells.sql("b", "SELECT team_id FROM slack_paces")] == [lake.team_id]
    assert await cells.count("a") == 0


async def test_on_the_way_a_message_and_a_typed_command_wait_and_everything_else_is_put_off(lake: Lake) -> None:
    fred, pier, cells = lake.fred, lake.pier, lake.cells
    first = await fred.mentions(pier, "first")
    await fred.hears(pier)
    async with cells.moving("a", "b", lake.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
        await cells.until_routed("slack", lake.team_id, "a", "b")
        # Where the workspace comes from, it is a thread of the agent's.
        await fred.posts(pier, "in between", thread_ts=first["ts"])
        await lake.until_count("b", 1, "status = 'waiting'")
        command = asyncio.create_task(fred.direct("/budget"))
        slash = await fred.slash(pier, "/parley", "budget")
        assert "is being moved" in (await slash.answered())[0]
        click = await fred.presses(pier, fred.written(pier)[0], "🔄")
        assert "is being moved" in (await click.answered())[0]
        assert click.is_acked
        await move_server(moving, lambda _line: None, seconds=60)
    await command
    assert await lake.heard(fred, pier, 2) == ["You said: fred: first", "You said: fred: in between"]
    assert "tokens" in (await fred.hears())[0]
    await lake.until_count("b", 3)
    assert await cells.count("a") == 0


async def test_a_thread_that_begins_on_the_way_needs_no_second_mention(lake: Lake) -> None:
    fred, pier, cells = lake.fred, lake.pier, lake.cells
    async with cells.moving("a", "b", lake.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
        await cells.until_routed("slack", lake.team_id, "a", "b")
        root = await fred.mentions(pier, "a new thread")
        await lake.until_count("b", 1, "status = 'waiting'")
        await fred.posts(pier, "one more thing", thread_ts=root["ts"])
        await lake.until_count("b", 2, "status = 'waiting'")
        await move_server(moving, lambda _line: None, seconds=60)
    await lake.until_count("b", 2)


async def test_a_door_that_has_not_heard_of_a_move_loses_no_message(lake: Lake) -> None:
    fred, pier, cells = lake.fred, lake.pier, lake.cells
    first = await fred.mentions(pier, "first")
    await fred.hears(pier)
    for cell in "ab":
        await cells.sql(cell, "ALTER TABLE cell_servers DISABLE TRIGGER parley_announce_change")
    await lake.moves()
    assert cells.cells.find("slack", lake.team_id) == ("a",)
    await fred.posts(pier, "and then?", thread_ts=first["ts"])
    assert await lake.heard(fred, pier, 2) == ["You said: fred: first", "You said: fred: and then?"]
    await lake.until_count("b", 2)
    # Slack had to repeat nothing.
    assert {envelope.attempt for envelope in lake.scene.slack.journal.envelopes} == {0}


async def test_a_form_that_is_sent_while_its_workspace_moves_stays_open(lake: Lake) -> None:
    fred, pier, cells = lake.fred, lake.pier, lake.cells
    message = await fred.posts(pier, "a bike and a boat")
    view = await (await fred.shortcut(pier, message, "ask_parley")).view()
    async with cells.moving("a", "b", lake.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
        await cells.until_routed("slack", lake.team_id, "a", "b")
        refused = await fred.submits(view, question="Which one?")
        assert refused.response["response_action"] == "errors"
        assert "is being moved" in str(refused.response["errors"]["question"])
        await move_server(moving, lambda _line: None, seconds=60)
    assert (await fred.submits(view, question="Which one?")).response == {}
    await lake.until_count("b", 1)
    assert "Which one?" in (await fred.hears(pier))[0]


async def test_buttons_edits_and_deletions_find_what_has_moved(lake: Lake, model: OpenAIStub) -> None:
    fred, pier, cells = lake.fred, lake.pier, lake.cells
    await cells.sql("a", "INSERT INTO personas (name, system_prompt, platform) VALUES ('p', 'Ask.', 'slack')")
    model.play([Answer(tool_calls=[("dialogue__ask_question", CHOICES)]), Answer("A boat it is.")])
    order = await fred.mentions(pier, "choose for me")
    await fred.hears(pier)
    await lake.until_count("a", 1)
    await lake.moves()
    await fred.presses(pier, fred.written(pier)[0], "Boat")
    assert (await fred.hears(pier, 2))[1] == "A boat it is."
    await lake.until_count("b", 2)

    model.play(say_it_back)
    bot = lake.scene.slack.world.installation_of(lake.team_id)
    assert bot is not None
    await fred.edits(pier, order, f"<@{bot.bot['id']}> choose wisely")
    await lake.until_count("b", 1, "content = 'choose wisely'")
    await lake.scene.slack.until(lambda: EDITED_LABEL in str(fred.written(pier)[0].get("blocks")))
    await fred.presses(pier, fred.written(pier)[0], EDITED_LABEL)
    await fred.hears(pier, 3)
    await fred.deletes(pier, order)
    await lake.until_count("b", 0, "content = 'choose wisely' AND again_of IS NULL")
    assert await cells.count("a") == 0


async def test_what_is_deleted_while_its_row_moves_is_in_neither_cell(lake: Lake) -> None:
    fred, pier, cells = lake.fred, lake.pier, lake.cells
    message = await fred.mentions(pier, "my number is 4711")
    await fred.hears(pier)
    await lake.until_count("a", 1)
    async with connected(cells.addresses["b"]) as holder, holder.transaction():
        # The last step of a move waits for it: the rows are deleted in one cell, and not to be seen in the other one.
        await holder.execute("LOCK TABLE inbox IN ROW EXCLUSIVE MODE")
        moving = asyncio.create_task(lake.moves())
        await until_somebody_waits(holder)
        deleting = asyncio.create_task(fred.deletes(pier, message))
        await cells.until("a", WAITS)
    await moving
    await deleting
    await lake.until_count("b", 0, "content LIKE '%4711%'")


async def test_the_app_is_installed_and_removed_in_the_cell_of_the_workspace(lake: Lake) -> None:
    fred, cells = lake.fred, lake.cells
    await lake.moves()
    await fred.removes_app()
    ended_in_b = "SELECT count(*) = 1 FROM slack_installations WHERE token IS NULL AND ended_because IS NOT NULL"
    await cells.until("b", ended_in_b)

    await lake.installs()
    assert [tuple(row) for row in await cells.sql("b", TOKENS)] == [(lake.team_id, True)]
    assert await cells.sql("a", TOKENS) == []
    await fred.direct("back again")
    assert await lake.heard(fred) == ["You said: back again"]
    async with cells.moving("b", "a", lake.team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "b")
        await moving.fetch(moving.source, statements.begin_departure, "a")
        status, page = await fred.installs(f"{cells.client.base_url}/slack/install")
        assert (status, "is being moved" in page) == (503, True)
        await move_server(moving, lambda _line: None, seconds=60)
    assert [tuple(row) for row in await cells.sql("a", TOKENS)] == [(lake.team_id, True)]


async def test_in_a_shared_channel_each_is_served_by_the_workspace_of_the_app(lake: Lake) -> None:
    scene, fred, cells = lake.scene, lake.fred, lake.cells
    await lake.moves()
    scene.slack.world.share(scene.general, lake.team)
    fred.joins(scene.general)
    # The home workspace's bot is the one in the channel.
    await fred.mentions(scene.general, "over here")
    assert await lake.heard(fred, scene.general) == ["You said: fred: over here"]
    again = await fred.presses(scene.general, fred.written(scene.general)[0], "🔄")
    assert again.is_acked
    await fred.hears(scene.general, 2)
    await lake.until_count("a", 2)
    assert await cells.count("b") == 0


async def test_a_shortcut_on_a_message_of_another_workspace_is_that_of_the_person_who_uses_it(lake: Lake) -> None:
    scene, fred, pier, cells = lake.scene, lake.fred, lake.pier, lake.cells
    await lake.moves()
    scene.slack.world.share(pier, scene.slack.installation.team)
    message = await scene.ann.posts(pier, "a bike and a boat")
    view = await (await fred.shortcut(pier, message, "ask_parley")).view()
    assert (await fred.submits(view, question="Which one?")).response == {}
    assert "Which one?" in (await fred.hears(pier))[0]
    await lake.until_count("b", 1)
    assert await cells.count("a") == 0


@pytest.mark.parametrize("is_home", [False, True], ids=["installed", "home"])
async def test_what_is_said_while_a_move_is_cancelled_is_answered_where_the_workspace_stays(
    lake: Lake, is_home: bool
) -> None:
    scene, cells = lake.scene, lake.cells
    person, channel = (scene.ann, scene.general) if is_home else (lake.fred, lake.pier)
    team_id = scene.slack.team_id if is_home else lake.team_id
    first = await person.mentions(channel, "first")
    await lake.until_count("a", 1)
    async with cells.moving("a", "b", team_id, platform="slack") as moving:
        await moving.fetch(moving.target, statements.begin_arrival, "a")
        await moving.fetch(moving.source, statements.begin_departure, "b")
    async with cells.moving("b", "a", team_id, platform="slack") as moving:
        await moving.fetch(moving.source, statements.begin_departure, "a")
        await moving.fetch(moving.target, statements.begin_arrival, "b")
        await cells.until_routed("slack", team_id, "b", "a")
        # In a thread of the agent's no mention is needed.
        await person.posts(channel, "on the way back", thread_ts=first["ts"])
        await lake.until_count("a", 1, "status = 'waiting'")
        await move_server(moving, lambda _line: None, seconds=60)
    assert len(await person.hears(channel, 2)) == 2
    assert await cells.count("b") == 0


async def test_what_was_missed_is_read_for_each_cell(lake: Lake) -> None:
    scene, fred, pier, cells = lake.scene, lake.fred, lake.pier, lake.cells
    await scene.ann.mentions(scene.general, "home")
    await fred.mentions(pier, "lake")
    await fred.hears(pier)
    await scene.ann.hears(scene.general)
    await lake.until_count("a", 2)
    await lake.moves()
    await cells.until("a", "SELECT EXISTS (SELECT FROM shards WHERE seen_id IS NOT NULL)")
    await ended(lake.door)
    await scene.slack.socket.until_gone()
    await fred.mentions(pier, "missed at the lake", is_heard=False)
    await scene.ann.mentions(scene.general, "missed at home", is_heard=False)

    platform = scene.parley.app.senders["slack"]
    assert isinstance(platform, SlackPlatform)
    lake.door = asyncio.create_task(platform.listen(scene.parley.app))
    assert (await lake.heard(fred, pier, 2))[1] == "You said: fred: missed at the lake"
    assert (await lake.heard(scene.ann, scene.general, 2))[1] == "You said: ann: missed at home"
    await lake.until_count("b", 2)
    await lake.until_count("a", 2)


async def test_what_comes_for_a_cell_that_is_away_is_not_accepted_and_comes_again(lake: Lake) -> None:
    scene, fred, pier, cells = lake.scene, lake.fred, lake.pier, lake.cells
    await lake.moves()
    # The door has heard of it.
    await cells.until_routed("slack", lake.team_id, "b")
    away = cells.cells.apps.pop("b")
    scene.slack.delivery.retry_delays, scene.slack.delivery.ack_seconds = (0.1,) * 1000, 0.5
    asking = asyncio.create_task(fred.mentions(pier, "are you there?"))
    await scene.slack.until(lambda: len(scene.slack.journal.envelopes) > 2)
    command = await fred.slash(pier, "/parley", "budget")
    assert "can't be reached just now" in (await command.answered())[0]
    await scene.ann.mentions(scene.general, "and at home?")
    assert await lake.heard(scene.ann, scene.general) == ["You said: ann: and at home?"]

    await cells.cells.add("b", away)
    await asking
    assert await lake.heard(fred, pier) == ["You said: fred: are you there?"]
    await lake.until_count("b", 1)


async def test_a_second_app_has_a_door_of_its_own(scene: Scene, postgres: URL, model: OpenAIStub) -> None:
    async with opened_lake(scene, postgres, model, by_http=True) as lake:
        scene, fred, pier, cells = lake.scene, lake.fred, lake.pier, lake.cells
        await lake.installs()
        await lake.moves()
        other = replace(scene.own, bot_token=None, signing_secret=SecretStr("the second app's"))
        platform, settings = SlackPlatform(other), door_settings(scene.settings)
        platform.cells = cells.cells
        async with (
            open_parley(settings, cells.addresses["a"], model, senders={"slack": platform}, works=False) as door,
            open_site(door) as site,
        ):
            await scene.ann.mentions(scene.general, "by the first door")
            assert await lake.heard(scene.ann, scene.general) == ["You said: ann: by the first door"]
            scene.slack.signing_secret = "the second app's"
            await scene.slack.delivery.deliver_to(f"{site.url}/slack/events")
            await fred.mentions(pier, "by the second")
            assert await lake.heard(fred, pier) == ["You said: fred: by the second"]
            await lake.until_count("b", 1)
            await lake.until_count("a", 1)
