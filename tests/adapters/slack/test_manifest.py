"""The manifest asks for what is used and for nothing else; `parley doctor` notices when the app is not made of it."""

import ast
import asyncio
import json
from asyncio.subprocess import PIPE
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from pydantic import SecretStr

from adapters.slack.install import SCOPES
from adapters.slack.install.manifest import EVENTS, OF_PANEL, build_manifest, to_link
from adapters.slack.platform import SlackPlatform
from adapters.slack.settings import SlackSettings
from shared.db.database import Address
from shared.errors import ConfigurationError
from shared.settings import Settings
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Admin, Json, ManifestRefused, SlackStandIn
from tests.standins.slack.api import METHODS
from tests.support.forks import get_command
from tests.support.slack_transports import opened_by_http
from tests.support.source_tree import ROOT, sources_in

# What the library's own ways to send a file and to install are made of.
WITHIN = {
    "files.upload.v2": ("files.getUploadURLExternal", "files.completeUploadExternal"),
    "/slack/install": ("oauth.v2.access",),
}


def named_methods() -> set[str]:
    """Return the methods of Slack's API that the adapter names, as strings or as the library's functions."""
    by_function = {name.replace(".", "_"): name for name in METHODS}
    methods: set[str] = set()
    for source in sources_in("adapters"):
        if not source.path.startswith("adapters/slack/"):
            continue
        for node in source.nodes():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                methods |= {node.value} & set(METHODS) | set(WITHIN.get(node.value, ()))
            elif isinstance(node, ast.Attribute) and node.attr in by_function:
                methods.add(by_function[node.attr])
    return methods


async def create_app(scene: Scene) -> Scene:
    """Return the scene with an app that is made of the manifest."""
    await scene.slack.make_app(build_manifest(scene.own, None))
    return replace(scene, settings=scene.settings.model_copy(update={"default_guest_token_budget": 10**9}))


async def every_place_is_talked_in(scene: Scene) -> None:
    """Ask in channels open and closed, in threads, directly and among several."""
    slack, ann = scene.slack, scene.ann
    secret = slack.world.add_channel("secret", is_private=True, topic="Carts")
    several = slack.world.add_group_direct([ann.user, scene.bob.user])
    for place in (scene.general, secret, several):
        root = await scene.bob.posts(place, "I like bikes")
        question = await ann.mentions(place, "what does Bob like?", thread_ts=root["ts"])
        await ann.hears(place, thread_ts=question["thread_ts"])
    await ann.direct("hello", files=[("note.txt", b"Boats hop.")])
    await ann.hears()


async def everything_is_opened(scene: Scene) -> None:
    """Use the agent's conversation, the native stop, the home tab, the command, the shortcut."""
    slack, ann = scene.slack, scene.ann
    await ann.opens_home("messages")
    await slack.until(lambda: slack.world.prompts.get(ann.dm["id"]))
    await ann.switches_to(scene.general)
    scene.model.play([Answer("Never", chunk_chars=2, chunk_delay=5.0), *[Answer("Hi.")] * 9])
    question = await ann.direct("and now?")
    key = (ann.dm["id"], question["ts"])
    await slack.until(lambda: slack.world.sessions.get(key, {}).get("status") == "processing")
    await ann.stops_session(ann.dm, question["ts"])
    await ann.hears(ann.dm, thread_ts=question["ts"])
    await ann.opens_home()
    await slack.until(lambda: ann.home)
    assert await (await ann.slash(scene.general, "/parley", "budget")).answered()
    message = await scene.bob.posts(scene.general, "carts swim")
    form = await (await ann.shortcut(scene.general, message, "ask_parley")).view()
    assert form["callback_id"]


async def what_only_some_need_is_done(scene: Scene) -> None:
    """Send a file, show tools, read groups, catch up, and say where an answer can't be given."""
    slack, ann, olga = scene.slack, scene.ann, Admin(scene.slack, "Olga")
    group = slack.world.add_user_group("keepers", [ann.user])
    await scene.sql(
        "INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('slack', :team, :group, 'user')",
        team=slack.team_id,
        group=group["id"],
    )
    assert "permission user" in (await (await ann.slash(scene.general, "/parley", "me")).answered())[-1]
    await olga.changes_group(group, [])
    await slack.events.in_team("subteam_created", {"subteam": group}, slack.team_id)
    arguments = {"title": "Bikes", "content": "bikes"}
    scene.model.play(
        [Answer(tool_calls=[("file_manager__create_document", arguments)], delay=1.5), Answer("It is done.", delay=1.5)]
    )
    await ann.mentions(scene.general, "write a list")
    await slack.until(lambda: any(message.get("files") for message in ann.written(scene.general)))


async def test_a_whole_day_uses_every_scope_and_every_event_of_the_manifest_and_no_other(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    async with (await create_app(scene)).opened(address, model) as office:
        await every_place_is_talked_in(office)
        await everything_is_opened(office)
        await what_only_some_need_is_done(office)
        await Admin(office.slack, "Olga").removes_app()

        refusals = [call for call in office.slack.journal.refused if call.error in ("missing_scope", "unknown_method")]
        assert [(call.method, call.answer) for call in refusals] == []
        assert office.slack.events.told == set(EVENTS)
        assert sorted(office.slack.used_scopes) == sorted(SCOPES)


def test_every_method_that_the_code_names_has_its_scope_and_every_event_its_listener() -> None:
    scopes = {scope for name in named_methods() for scope in METHODS[name].scopes}
    listened = {
        node.args[0].value
        for source in sources_in("adapters")
        if source.path.startswith("adapters/slack/")
        for node in source.nodes()
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "bolt.event"
        and isinstance(node.args[0], ast.Constant)
    }

    # What a direct conversation is called, nobody has to look up.
    assert scopes - set(SCOPES) == {"im:read"}
    assert {event.partition(".")[0] for event in (*EVENTS, *OF_PANEL)} == listened


async def test_over_http_the_manifest_leads_slack_to_this_parley(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    async with opened_by_http(scene, address, model) as office:
        await office.slack.make_app(build_manifest(office.own, None))

        await office.ann.direct("hello")
        await office.ann.hears()
        assert await (await office.ann.slash(office.general, "/parley", "help")).answered()
        assert {delivery.kind for delivery in office.slack.journal.deliveries} == {"events_api", "slash_commands"}


async def test_the_command_writes_it_and_says_what_is_missing(tmp_path: Path) -> None:
    async def print_manifest(*more: str, **variables: str) -> str:
        command = (*get_command(), "slack", "manifest", *more)
        environment = {"PYTHONPATH": str(ROOT), "PATH": "", **variables}
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=environment, stdout=PIPE, stderr=PIPE
        )
        output, complained = await process.communicate()
        return (output or complained).decode()

    by_socket, error = await asyncio.gather(print_manifest(), print_manifest("--http"))

    manifest: Json = yaml.safe_load(by_socket)
    assert manifest == build_manifest(SlackSettings(), None)
    assert manifest["settings"]["socket_mode_enabled"]
    assert "redirect_urls" not in manifest["oauth_config"]
    assert error == "parley: PUBLIC_URL is not set: by HTTP, Slack sends everything to that address.\n"


def test_with_an_address_it_is_for_http_and_goes_into_a_link() -> None:
    manifest = build_manifest(SlackSettings(), "https://parley.example", name="Bike")

    assert manifest["settings"]["event_subscriptions"]["request_url"] == "https://parley.example/slack/events"
    assert manifest["oauth_config"]["redirect_urls"] == ["https://parley.example/slack/oauth_redirect"]
    link, _, encoded = to_link(manifest).partition("&manifest_json=")
    assert link == "https://api.slack.com/apps?new_app=1"
    assert json.loads(unquote(encoded)) == manifest
    with pytest.raises(ConfigurationError):
        build_manifest(SlackSettings(), None, name="x" * 36)


async def test_slack_would_refuse_a_manifest_with_something_strange_in_it() -> None:
    async with SlackStandIn() as slack:
        manifest = build_manifest(SlackSettings(), None)
        manifest["settings"]["socket_mode"] = True
        manifest["oauth_config"]["scopes"]["bot"] = ["chat:write"]
        with pytest.raises(ManifestRefused, match="/settings/socket_mode") as excinfo:
            await slack.make_app(manifest)
        assert "events have their scopes" in str(excinfo.value)


async def test_slack_refuses_the_panel_to_a_new_app_and_an_old_one_keeps_it() -> None:
    manifest = build_manifest(SlackSettings(), None, has_panel=True)
    async with SlackStandIn() as slack:
        with pytest.raises(ManifestRefused, match="assistant_view is not available to new apps"):
            await slack.make_app(manifest)
        slack.is_old_app = True
        await slack.make_app(manifest)

        assert slack.experience == "assistant"
        assert "assistant_thread_started" in slack.events.subscriptions


async def list_findings(own: SlackSettings, settings: Settings | None = None) -> list[tuple[str, str]]:
    platform = SlackPlatform(own)
    return [(finding.level, finding.text) async for finding in platform.examine(settings or Settings())]


async def test_the_doctor_finds_an_app_that_is_made_of_the_manifest_in_order(scene: Scene) -> None:
    findings = await list_findings((await create_app(scene)).own)

    assert [level for level, _ in findings] == ["ok"] * 5
    assert findings[0][1] == "the token is parley's in Parley"
    assert findings[1][1] == f"scopes: all {len(SCOPES)}, and no other"


async def test_the_doctor_names_what_is_missing_and_what_is_too_much(scene: Scene) -> None:
    await create_app(scene)
    scene.slack.installation.scopes.remove("im:history")
    scene.slack.socket.is_enabled = False

    _, scopes, _, socket, _ = await list_findings(scene.own)
    assert scopes == ("fail", scopes[1])
    assert scopes[1].startswith("scopes: im:history are missing; put the manifest")
    assert socket[1].startswith("Socket Mode is off in the app; switch it on")
    scene.slack.installation.scopes |= {"im:history", "team:read"}
    assert (await list_findings(scene.own))[1][1].startswith("scopes: team:read are more than it needs")


@pytest.mark.parametrize("messages", [0, 20], ids=["an empty channel", "a full channel"])
async def test_the_doctor_notices_that_slack_limits_the_history_of_this_app(scene: Scene, messages: int) -> None:
    await create_app(scene)
    for number in range(messages):
        await scene.ann.posts(scene.general, f"entry {number}", is_heard=False)
    assert ("ok", "history: as often as an internal app may read it") in await list_findings(scene.own)
    scene.slack.limits.is_unlisted = True

    # The second time, the call of this minute has been made already.
    for _ in range(2):
        level, output = (await list_findings(scene.own))[2]
        assert level == "warn"
        assert output.startswith("history: Slack gives this app a history once a minute, 15 messages at a time")
    assert len([call for call in scene.slack.calls("conversations.history") if call.ok]) < 4


async def test_the_doctor_says_which_token_is_no_good_and_why(scene: Scene) -> None:
    bot, app, _ = await list_findings(
        replace(scene.own, bot_token=scene.own.app_token, app_token=SecretStr("xapp-old"))
    )
    assert bot == ("fail", "SLACK_BOT_TOKEN begins with xoxb-; this one is of another kind")
    assert app[0] == "fail"
    assert "connections:write" in app[1]
    await Admin(scene.slack, "Olga").revokes_tokens()
    assert (await list_findings(scene.own))[0] == (
        "fail",
        "Slack refuses the token; install the app again and set SLACK_BOT_TOKEN. (token_revoked)",
    )


async def test_the_doctor_looks_at_http_and_at_installing(scene: Scene) -> None:
    by_http = replace(scene.own, bot_token=None, app_token=None, client_id="1.2")
    assert [level for level, _ in await list_findings(by_http)] == ["fail", "fail", "ok"]
    whole = replace(by_http, signing_secret=SecretStr("secret"), client_secret=SecretStr("secret"))
    assert (await list_findings(whole, Settings(public_url="https://parley.example")))[:2] == [
        ("ok", "HTTP: Slack sends to https://parley.example/slack/events"),
        ("ok", "installing: https://parley.example/slack/install"),
    ]
