"""`parley setup`: what is typed is tried against the real thing, and `.env` is written whole or not at all."""

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.cli.setup.env_file import write_env
from shared.errors import ConfigurationError
from tests.adapters.cli.shell import Finished, Shell
from tests.standins.discord import DiscordStandIn
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import SlackStandIn
from tests.support.eventually import PATIENCE
from tests.support.keyboard import at_keyboard

OLLAMA, OTHER, DISCORD, SLACK, NOTHING = "6", "7", "1", "3", ""
ANN = "80351110224678912"


async def set_up(
    shell: Shell, *lines: str, options: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Finished:
    typed = "".join(f"{line}\n" for line in lines)
    return await asyncio.to_thread(shell.run, "setup", *options, stdin=typed, **(settings or {}))


async def test_what_is_typed_works_and_is_written_beside_what_was_there(shell: Shell) -> None:
    file = shell.folder / ".env"
    file.write_text("# mine\nPORT=8099\nLLM_MODELS=old\n")
    async with OpenAIStub([Answer("ready")]) as models, DiscordStandIn() as discord, SlackStandIn() as slack:
        parameters = {"DISCORD_API_BASE": discord.api_base, "SLACK_API_BASE": slack.api_base}
        model = (OTHER, "gpt-4o-mini", models.base_url, "sk-given")
        places = (f"{DISCORD},{SLACK}", discord.token, ANN, slack.bot_token, slack.app_token, "U012AB3CD")
        result = await set_up(shell, *model, *places, "40", NOTHING, settings=parameters)

    assert result.code == 0, result.err
    for text in (
        "ok    gpt-4o-mini answered with",
        "https://discord.com/oauth2/authorize?client_id=",
        "open https://api.slack.com/apps?new_app=1 and choose From a manifest.",
        "ok    Socket Mode: Slack gives a connection",
        "About 40 answers are 100,000 tokens",
        "can be read by you alone",
        f"discord:{ANN} is an owner.",
        "Start it: parley run",
    ):
        assert text in result.out
    assert read_env(shell) == {
        "PORT": "8099",
        "LLM_MODELS": "gpt-4o-mini",
        "OPENAI_BASE_URL": models.base_url,
        "OPENAI_API_KEY": "sk-given",
        "DISCORD_TOKEN": discord.token,
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
        "DEFAULT_GUEST_TOKEN_BUDGET": "100000",
    }
    assert json.loads((shell.folder / "slack-manifest.json").read_text())["settings"]["socket_mode_enabled"]
    assert file.read_text().startswith("# mine\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in shell.folder.iterdir() if path.name.startswith(".env")] == [".env"]
    file.unlink()
    assert {"discord": "owner", "slack": "owner"}.items() <= dict(
        line.split("|")
        for line in shell.says(
            "psql", "-At", "-c", "SELECT split_part(accounts, ':', 1), permission FROM admin.users"
        ).splitlines()
    ).items()


async def test_options_answer_for_a_script(shell: Shell) -> None:
    async with OpenAIStub([Answer("ready")]) as models:
        options = ("--yes", "--model", "small", "--base-url", models.base_url, "--place", "web", "--guest-answers", "4")
        result = await set_up(
            shell, options=(*options, "--public-url", "https://bot.example.org"), settings={"OPENAI_API_KEY": "sk"}
        )

    assert result.code == 0, result.err
    assert read_env(shell) == {
        "LLM_MODELS": "small",
        "OPENAI_BASE_URL": models.base_url,
        "PUBLIC_URL": "https://bot.example.org",
        "DEFAULT_GUEST_TOKEN_BUDGET": "10000",
    }
    (shell.folder / ".env").unlink()


async def test_it_says_what_to_type_for_workers_and_adapters_that_run_by_themselves(shell: Shell) -> None:
    worker = await asyncio.to_thread(replace(shell, is_warm=False).start, "worker")
    with worker:
        assert worker.stdout is not None
        assert "ready" in await asyncio.to_thread(worker.stdout.readline)
        result = await set_up(shell, options=("--yes", "--public-url", "https://bot.example.org"))
        worker.terminate()
        worker.communicate()

    assert result.code == 0, result.err
    assert result.out.endswith(
        "These run with the settings of before. Stop each where it runs, and type there again:\n  parley worker\n"
    )
    (shell.folder / ".env").unlink()


async def test_a_new_server_gets_no_key_that_was_set_before_and_links_are_not_written_through(shell: Shell) -> None:
    target, link = shell.folder / "target", shell.folder / "slack-manifest.json"
    target.write_text("mine")
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    async with OpenAIStub([Answer("ready")]) as models:
        lines = (OTHER, "small", models.base_url, NOTHING, SLACK)
        result = await set_up(shell, *lines, settings={"OPENAI_API_KEY": "sk-of-before"})

        assert "answered with" in result.out
        assert "sk-of-before" not in str([request.headers for request in models.requests])
    assert (result.code, target.read_text()) == (2, "mine")
    assert "slack-manifest.json can't be written" in result.err
    link.unlink()


async def test_a_key_of_before_goes_to_no_server_that_the_page_names(shell: Shell) -> None:
    file = shell.folder / ".env"
    async with OpenAIStub([Answer("ready")] * 3) as models:
        options = ("--yes", "--key-stdin", "--model=small", f"--base-url={models.base_url}")
        # What stands in the environment counts again when Parley has started with it, whatever is in .env.
        for key in ("", "sk-new"):
            result = await set_up(shell, key, options=options, settings={"OPENAI_API_KEY": "sk-of-before"})
            assert (result.code, file.exists()) == (1, False)
            assert "OPENAI_API_KEY of the environment wins over .env" in result.err
        file.write_text("OPENAI_API_KEY=sk-of-before\n")
        # As Parley has read it from the file.
        result = await set_up(shell, "", options=options, settings={"OPENAI_API_KEY": "sk-of-before"})
        assert result.code == 0, result.err
        assert read_env(shell) == {"LLM_MODELS": "small", "OPENAI_BASE_URL": models.base_url, "OPENAI_API_KEY": ""}
        assert "sk-of-before" not in str([request.headers for request in models.requests])
    file.unlink()


async def test_a_server_s_names_of_models_control_no_terminal(fresh: Shell) -> None:
    body = json.dumps({"models": [{"name": f"\x1b]0;{name}\x07"} for name in "ab"]}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        result = await set_up(fresh, OLLAMA, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "9")

    assert "1  ]0;a\n" in result.out
    assert "\x1b" not in result.out + result.err


def test_what_env_would_read_differently_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    with pytest.raises(ConfigurationError, match="TOKEN"):
        write_env(file, {"A": "1", "TOKEN": "a${HOME}"})
    with pytest.raises(ConfigurationError, match="can't be written"):
        write_env(Path("/proc/parley/.env"), {"A": "1"})

    assert list(tmp_path.iterdir()) == []


async def test_a_wrong_token_is_refused_with_the_reason_and_nothing_is_written(fresh: Shell) -> None:
    async with DiscordStandIn() as discord:
        result = await set_up(fresh, NOTHING, DISCORD, "wrong", settings={"DISCORD_API_BASE": discord.api_base})

    assert result.code == 1
    assert "fail  " in result.out
    assert "nothing was written" in result.err
    assert not (fresh.folder / ".env").exists()


async def test_a_token_that_can_not_be_tried_is_kept_with_a_warning(shell: Shell) -> None:
    away = {"DISCORD_API_BASE": "http://127.0.0.1:1/api/v10"}
    result = await set_up(shell, NOTHING, DISCORD, "a-token", *[NOTHING] * 3, settings=away)

    assert result.code == 0, result.err
    assert "this could not be tried now, and is kept" in result.err
    assert read_env(shell) == {"DISCORD_TOKEN": "a-token"}
    (shell.folder / ".env").unlink()


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("9",), "'9' is none of them; write a number from 1 to 8"),
        ((NOTHING, "everywhere"), "'everywhere' is none of them"),
        ((NOTHING, NOTHING, "many"), "'many' is no number of answers"),
    ],
)
async def test_an_answer_that_does_not_fit_says_what_would(fresh: Shell, lines: tuple[str, ...], reason: str) -> None:
    result = await set_up(fresh, *lines)

    assert reason in result.err
    assert (result.code, (fresh.folder / ".env").exists()) == (1, False)


async def test_the_end_of_the_input_leaves_everything_as_it_is(fresh: Shell) -> None:
    assert "Nothing was typed" in (await set_up(fresh)).out
    assert not (fresh.folder / ".env").exists()


def test_ctrl_c_writes_nothing(fresh: Shell) -> None:
    with fresh.start("setup") as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write("\n")
        running.stdin.flush()
        while "Where should it live?" not in running.stdout.readline():
            pass
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE) == 130

    assert not (fresh.folder / ".env").exists()


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
async def test_a_refused_key_is_said_and_asked_for_again(shell: Shell, terminal: str) -> None:
    answers = ("Number [8]", OTHER), ("Models:", "small"), ("Address:", "{url}"), ("OPENAI_API_KEY:", "sk-wrong")
    again = ("Number [1]", "1"), ("OPENAI_API_KEY:", "sk-right")
    rest = ("Numbers", NOTHING), ("Answers [20]:", NOTHING), ("Number [1]", NOTHING), ("Start it now?", "n")
    async with OpenAIStub([Answer("ready")], api_key="sk-right") as models:
        with at_keyboard(shell, "setup", columns=60, settings={"TERM": terminal}) as keyboard:
            for question, answer in (*answers, *again, *rest):
                await asyncio.to_thread(keyboard.until, question)
                keyboard.type(answer.format(url=models.base_url) + "\r")
            assert await asyncio.to_thread(keyboard.program.wait, 30) == 0

    assert "That did not work." in keyboard.screen
    assert "sk-" not in keyboard.screen
    assert read_env(shell)["OPENAI_API_KEY"] == "sk-right"
    (shell.folder / ".env").unlink()


def read_env(shell: Shell) -> Mapping[str, str]:
    lines = (shell.folder / ".env").read_text().splitlines()
    return {name: value.strip("'") for line in lines if "=" in line for name, _, value in [line.partition("=")]}
