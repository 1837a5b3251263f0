"""`parley setup`: what is typed is tried against the real thing, and `.env` is written whole or not at all."""

import asyncio
import signal
from collections.abc import Mapping

from tests.adapters.cli.shell import Finished, Shell
from tests.standins.discord import DiscordStandIn
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import SlackStandIn


async def set_up(shell: Shell, *lines: str, **settings: str) -> Finished:
    typed = "".join(f"{line}\n" for line in lines)
    return await asyncio.to_thread(shell.run, "setup", stdin=typed, **settings)


async def test_what_is_typed_works_and_is_written_beside_what_was_there(fresh: Shell) -> None:
    file = fresh.folder / ".env"
    file.write_text("# mine\nPORT=8099\nLLM_MODELS=old\n")
    async with OpenAIStub([Answer("ready")]) as models, DiscordStandIn() as discord, SlackStandIn() as slack:
        parameters = {"DISCORD_API_BASE": discord.api_base, "SLACK_API_BASE": slack.api_base}
        lines = ("", "gpt-4o-mini", models.base_url, "sk-given", "", discord.token, slack.bot_token, slack.app_token)
        result = await set_up(fresh, *lines, **parameters)

    assert result.code == 0, result.err
    for text in (
        "ok    gpt-4o-mini answered with",
        "https://discord.com/oauth2/authorize?client_id=",
        "https://api.slack.com/apps?new_app=1&manifest_",
        "ok    Socket Mode: Slack gives a connection",
        "can be read by you alone",
    ):
        assert text in result.out
    assert read_env(fresh) == {
        "PORT": "8099",
        "LLM_MODELS": "gpt-4o-mini",
        "OPENAI_BASE_URL": models.base_url,
        "OPENAI_API_KEY": "sk-given",
        "DISCORD_TOKEN": discord.token,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
    }
    assert file.read_text().startswith("# mine\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in fresh.folder.iterdir() if path.name.startswith(".env")] == [".env"]


async def test_a_wrong_token_is_refused_with_the_reason_and_nothing_is_written(fresh: Shell) -> None:
    async with DiscordStandIn() as discord:
        result = await set_up(fresh, "", "", "wrong", DISCORD_API_BASE=discord.api_base)

    assert result.code == 1
    assert "fail  " in result.out
    assert "nothing was written" in result.err
    assert not (fresh.folder / ".env").exists()


async def test_the_end_of_the_input_leaves_everything_as_it_is(fresh: Shell) -> None:
    assert "Nothing was typed" in (await set_up(fresh)).out
    assert not (fresh.folder / ".env").exists()


def test_ctrl_c_writes_nothing(fresh: Shell) -> None:
    with fresh.start("setup") as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("\n")
        running.stdin.flush()
        while "LLM_MODELS" not in running.stdout.readline():
            pass
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130

    assert not (fresh.folder / ".env").exists()


def read_env(shell: Shell) -> Mapping[str, str]:
    lines = (shell.folder / ".env").read_text().splitlines()
    return {name: value.strip("'") for line in lines if "=" in line for name, _, value in [line.partition("=")]}
