"""One adapter at a time: those that are configured run, without a worker beside them."""

import asyncio
from subprocess import Popen

import pytest
from pydantic import SecretStr

from adapters.cli.platforms import build_platforms, list_setting_names, read_all_settings
from adapters.discord.settings import DiscordSettings
from adapters.matrix.settings import MatrixSettings
from adapters.slack.settings import SlackSettings
from shared.settings import Settings
from tests.adapters.cli.shell import Shell
from tests.adapters.cli.test_running import fetch, find_base, running_parley, stop
from tests.standins.discord import DiscordStandIn
from tests.standins.slack import SlackStandIn


def test_without_tokens_every_platform_has_its_defaults_and_none_is_built() -> None:
    assert read_all_settings(Settings()) == {
        "discord": DiscordSettings(),
        "matrix": MatrixSettings(),
        "slack": SlackSettings(),
    }
    assert build_platforms(Settings()) == []
    assert list_setting_names() == [
        "DISCORD_TOKEN",
        "DISCORD_API_BASE",
        "DISCORD_GATEWAY",
        "DISCORD_CDN_BASE",
        "DISCORD_SHARD_COUNT",
        "DISCORD_SHARD_IDS",
        "DISCORD_REQUESTS_PER_SECOND",
        "DISCORD_SESSION_SECONDS",
        "MATRIX_HOMESERVER",
        "MATRIX_USER",
        "MATRIX_TOKEN",
        "MATRIX_INVITES",
        "SLACK_BOT_TOKEN",
        "SLACK_APP_TOKEN",
        "SLACK_SIGNING_SECRET",
        "SLACK_CLIENT_ID",
        "SLACK_CLIENT_SECRET",
        "SLACK_API_BASE",
    ]


@pytest.mark.parametrize(
    "settings",
    [DiscordSettings(token=SecretStr("hunter2")), SlackSettings(SecretStr("hunter2"), SecretStr("hunter2"))],
)
def test_secrets_of_platforms_are_in_no_text_that_is_made_of_them(settings: object) -> None:
    assert "hunter2" not in f"{settings!r} {settings}"


@pytest.mark.parametrize("name", ["discord", "slack"])
async def test_a_platform_alone_holds_its_connection(fresh: Shell, name: str) -> None:
    async with DiscordStandIn() if name == "discord" else SlackStandIn() as standin:
        process = fresh.start("adapter", name, **standin.environment())
        try:
            await (standin.gateway if isinstance(standin, DiscordStandIn) else standin.socket).until()
        finally:
            process.terminate()
        assert await asyncio.to_thread(process.wait, 30) == 0
        await asyncio.to_thread(process.communicate)


async def test_run_says_connecting_until_slack_has_accepted_the_connection(shell: Shell) -> None:
    async with SlackStandIn() as slack:
        refusing = slack.fail("apps.connections.open", error="internal_error", times=10**6)
        process = shell.start("run", PORT="0", **slack.environment())
        try:
            output = await asyncio.to_thread(read_until, process, "Ctrl+C stops it.")
            assert output.count("  slack     connecting …\n") == 1
            assert "listening" not in output
            refusing.times = 0
            output = await asyncio.to_thread(read_until, process, "listening")
        finally:
            process.terminate()
            await asyncio.to_thread(process.communicate)
        assert output == "  slack     listening\n"


def read_until(process: "Popen[str]", text: str) -> str:
    """Return what a program prints up to a line with this text, or all that it prints."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            break
    return "".join(lines)


def test_the_web_adapter_takes_what_slack_sends_when_there_is_a_signing_secret(shell: Shell) -> None:
    parameters = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_SIGNING_SECRET": "secret", "PORT": "0"}
    with running_parley(shell, "adapter", "web", until="database", **parameters) as (web, lines):
        assert fetch(f"{find_base(lines)}/slack/events", type="event_callback") == (401, "Not signed by Slack.")
        assert stop(web) < 10
