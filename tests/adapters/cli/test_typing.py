"""What is typed or set wrongly is one line, and help answers at once."""

import ast
import json
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import run

import pytest
from typer.core import TyperGroup

from adapters.cli.console import show_table
from adapters.cli.registry import COMMANDS, GROUPS, WITHOUT_JSON, load
from shared.db.migrations import newest_revision
from tests.adapters.cli.shell import Shell
from tests.support.keyboard import at_keyboard
from tests.support.source_tree import sources_in

HEAVY = (
    "agent.app",
    "agent.commands.dry_run.replay",
    "agent.people.participants",
    "agent.tools",
    "aiohttp",
    "alembic",
    "asyncpg",
    "discord",
    "httpx",
    "litellm",
    "mcp",
    "pydantic",
    "rich",
    "shared.schedules.phrases",
    "slack_bolt",
    "sqlalchemy",
    "starlette",
    "structlog",
    "urllib.request",
    "uvicorn",
    "yaml",
)
DATABASE = {"asyncpg", "pydantic"}
# What prompt-toolkit writes when it begins to read: pasted lines are marked.
PROMPT = "\x1b[?2004h"


@contextmanager
def running_worker(shell: Shell) -> Iterator[None]:
    with shell.start("worker") as worker:
        assert worker.stdout is not None
        assert "ready" in worker.stdout.readline()
        yield
        worker.terminate()
        worker.communicate()


def test_help_names_the_commands(fresh: Shell) -> None:
    output = fresh.says("--help")

    for command in (
        "run",
        "worker",
        "adapter",
        "chat",
        "migrate",
        "psql",
        "doctor",
        "user",
        "persona",
        "tools",
        "explain",
    ):
        assert f" {command} " in output


def test_the_version_is_the_installed_one(fresh: Shell) -> None:
    assert fresh.says("--version").startswith("parley 0.")


def test_version_tells_what_runs_here(shell: Shell, fresh: Shell) -> None:
    versions = json.loads(shell.says("version", "--json"))

    assert list(versions) == ["Parley", "Python", "Postgres", "pgvector", "tables"]
    assert versions["Python"] == platform.python_version()
    assert re.fullmatch(r"1\d\.\d+.*", versions["Postgres"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", versions["pgvector"])
    assert versions["tables"] == newest_revision()
    # It makes no database.
    assert "none yet" in fresh.says("version")
    assert not (fresh.home / "postgres").exists()
    away = fresh.run("version", DATABASE_URL="postgresql://parley@127.0.0.1:1/parley")
    assert (away.code, away.out.split()[0]) == (3, "Parley")
    assert "DATABASE_URL" in away.err


def list_heavy(shell: Shell, *arguments: str, stdin: str = "") -> set[str]:
    """Run a command that says something, and return what it has imported of the heavy packages."""
    program = (
        f"import sys\nfrom adapters.cli import main\nsys.argv = {['parley', *arguments]!r}\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    process = run(  # our own program
        [sys.executable, "-c", program],
        cwd=shell.folder,
        env=shell.environment(),
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert process.stdout != "", process.stderr
    return set(process.stderr.splitlines()[-1].split())


@pytest.fixture(scope="module")
def people_and_skill(shell: Shell) -> Shell:
    """The shell, where Yan and Zoe are known and a skill lies in the folder."""
    for person in ("web:yan", "web:zoe"):
        shell.says("user", "set-budget", person, "1000", "--new")
    (shell.folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n")
    return shell


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--help"], {"rich"}),
        (["version"], DATABASE),
        (["user", "list"], DATABASE),
        (["tools"], DATABASE | {"agent.tools"}),
        (["user", "set-budget", "discord:7", "1000", "--new"], DATABASE | {"agent.people.participants"}),
        (["user", "export", "web:zoe"], DATABASE),
        (["user", "erase", "web:yan", "--yes"], DATABASE),
        (["link"], DATABASE),
        (["setup", "--help"], DATABASE | {"rich"}),
        (["doctor", "--help"], {"pydantic", "rich"}),
        (["backup", "--help"], {"pydantic", "rich"}),
        (["backup", "all.backup", "--live"], DATABASE),
        (["apply", "--help"], DATABASE | {"rich", "yaml"}),
        (["skill", "add", "SKILL.md"], DATABASE | {"agent.tools", "yaml"}),
        (["slack", "rotate-keys"], DATABASE),
        (["slack", "manifest"], {"pydantic", "yaml"}),
        (["export", "--kubernetes", "--json"], DATABASE | {"yaml"}),
    ],
)
def test_a_command_imports_nothing_heavy_that_it_does_not_need(
    people_and_skill: Shell, arguments: list[str], expected: set[str]
) -> None:
    assert list_heavy(people_and_skill, *arguments) == expected


def test_what_modules_import_where_they_use_it_is_there_before_a_turn() -> None:
    functions = [
        function
        for source in sources_in("modules")
        for function in source.nodes()
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    nodes = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
    names = {node.module for node in nodes if f"{node.module}".startswith("shared.")}
    program = f"import sys\nimport adapters.cli.serving\nprint(*{names!r} - sys.modules.keys())"

    missing = run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True).stdout.split()

    assert "shared.schedules.phrases" in names
    assert missing == []


def test_who_asks_beside_a_worker_that_answers_imports_no_program_of_their_own(shell: Shell) -> None:
    with running_worker(shell):
        assert list_heavy(shell, "ask", "What is 2+3?") == DATABASE
        assert list_heavy(shell, "chat", stdin="What is 2+3?\nand 3+4?\n") == DATABASE
        (shell.folder / "note.txt").write_text("What is 2+3?")
        assert list_heavy(shell, "ask", "read it", "-f", "note.txt", "-m", "offline") == DATABASE
        # What only the whole program can do brings it.
        assert "agent.app" in list_heavy(shell, "chat", stdin="/me\n")


def test_who_asks_where_no_worker_is_answers_without_sessions_and_patterns_of_dates(shell: Shell) -> None:
    programs = {"agent.app", "agent.people.participants", "agent.tools", "yaml"}

    assert list_heavy(shell, "ask", "What is 2+3?") == DATABASE | programs
    assert list_heavy(shell, "chat", stdin="What is 2+3?\nand 3+4?\n") == DATABASE | programs


def test_the_first_prompt_waits_for_nothing_that_only_draws_answers(shell: Shell) -> None:
    cold, settings = replace(shell, is_warm=False), {"PYTHONPROFILEIMPORTTIME": "1"}
    with running_worker(shell), at_keyboard(cold, "chat", settings=settings) as keyboard:
        screen = keyboard.until("Ctrl+D: leave.") + keyboard.until(PROMPT)

    imported = set(re.findall(r"\| +([\w.]+)", screen))
    assert "prompt_toolkit" in imported
    assert imported & {"agent.app", "markdown_it", "rich.console", "sqlalchemy"} == set()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "No such command 'rnu'."),
        (["user", "promote", "1"], "Missing argument"),
        (["user", "promote", "1", "king"], "'king' is no permission; write guest, user, admin or owner."),
        (["user", "set-budget", "1", "lots"], "'lots' is no budget"),
        (["user", "set-budget", "1", "-5"], "No such option"),
        (["user", "link", "1", "discord"], "'discord' is no account; write PLATFORM:ID"),
        (["persona", "create", "Cook"], "Give the instructions by --prompt TEXT or by --prompt-file FILE."),
        (["explain", "first"], "Invalid value for 'TURN'"),
        (["restore", "nothing.dump"], "'nothing.dump' does not exist."),
        (["adapter", "irc"], "no adapter for irc"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(fresh: Shell, arguments: list[str], message: str) -> None:
    result = fresh.run(*arguments)

    assert message in result.err
    assert result.err.startswith("parley: ")
    assert result.err.count("\n") == 1
    assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"PORT": "http"}, "PORT is wrong"),
        ({"PORT": "99999"}, "PORT is wrong"),
        ({"LOG_LEVEL": "loud"}, "LOG_LEVEL is wrong"),
        ({"DATABASE_URL": "mysql://localhost/parley"}, "DATABASE_URL names mysql"),
        ({"DATABASE_URL": "what"}, "DATABASE_URL is not a database address"),
        ({"DATABASE_URL": "postgresql://parley:secret@127.0.0.1:1/parley"}, "DATABASE_URL: no Postgres answers"),
        ({"DEBUG_MOCK_RESPONSES": "{"}, "DEBUG_MOCK_RESPONSES"),
        ({"PARLEY_HOME": "/proc/nowhere"}, "PARLEY_HOME"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(fresh: Shell, settings: dict[str, str], message: str) -> None:
    result = fresh.run("chat", **settings)

    assert message in result.err
    assert "secret" not in result.err
    assert result.err.count("\n") == 1
    assert (result.code, result.out) == (2, "")


def test_an_unknown_name_in_the_env_file_is_reported_with_the_nearest_one(fresh: Shell) -> None:
    (fresh.folder / ".env").write_text("LLM_MODEL=gpt-4o-mini\n")

    result = fresh.run("user", "list")

    assert (
        result.err == "parley: .env: unknown setting LLM_MODEL; did you mean LLM_MODELS? Correct or remove the line.\n"
    )
    assert result.code == 2


def test_a_table_in_a_pipe_has_whole_lines_and_columns_in_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(
        ("who", "said", "times"), [("日本", "one\ntwo", 1), ("Zoë", "x" * 1200, None), (None, "three\x1b[2J", 22)]
    )

    heading, rule, *lines = capsys.readouterr().out.splitlines()
    said = 1200 * " "
    assert heading == f"who    said{said[4:]}   times"
    assert rule == "─" * (4 + 3 + 1200 + 3 + 5)
    assert lines == [
        f"日本   one{said[3:]}   1",
        "       two",
        f"Zoë    {'x' * 1200}",
        f"       three[2J{said[8:]}   22",
    ]


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("parley ps", "psql"),
        ("parley user pro", "promote"),
        ("parley persona create Cook --mod", "--model\n--modules"),
    ],
)
def test_a_shell_is_told_what_may_follow(fresh: Shell, typed: str, completions: str) -> None:
    variables = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}

    assert "_PARLEY_COMPLETE=complete_bash" in fresh.says("completion", "bash")
    assert sorted(fresh.says(_PARLEY_COMPLETE="complete_bash", **variables).split()) == sorted(completions.split())


def test_each_command_is_listed_with_the_help_that_it_has_and_can_answer_in_json() -> None:
    for name, (_, summary) in {**COMMANDS, **GROUPS}.items():
        command = load(name)
        leaves = list(command.commands.values()) if isinstance(command, TyperGroup) else [command]
        assert isinstance(command, TyperGroup) or (command.help or "").startswith(summary.rstrip(".")), name
        if name not in WITHOUT_JSON:
            assert all("--json" in param.opts for leaf in leaves for param in leaf.params[-1:]), name


def test_a_program_gets_json_whatever_becomes_of_the_command(shell: Shell) -> None:
    shell.says("user", "set-budget", "discord:1", "1000", "--new")

    users = json.loads(shell.says("user", "list", "--json"))
    assert (users[0]["accounts"], users[0]["budget"], users[0]["used"]) == ("discord:1", 1000, 0)
    assert json.loads(shell.says("persona", "list", "--json")) == []
    assert json.loads(shell.says("persona", "set-default", "none", "--json"))["message"].startswith("the built-in")
    result = shell.run("user", "show", "discord:2", "--json")
    assert (result.code, json.loads(result.out)["exit_code"]) == (1, 1)
    assert "Nobody has written from discord:2" in json.loads(result.out)["error"]


def test_the_console_script_is_the_one_that_the_project_names() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8")

    assert 'parley = "adapters.cli:main"' in project


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("discord", {}, "discord is not configured; set DISCORD_TOKEN, see docs/discord.md."),
        ("slack", {}, "slack is not configured; set SLACK_BOT_TOKEN (or SLACK_CLIENT_ID, for many workspaces)"),
        ("discord", {"DISCORD_TOKEN": "x", "DISCORD_SHARD_COUNT": "0"}, "DISCORD_SHARD_COUNT is wrong: "),
        ("a2a", {}, "it is a part of the web adapter, which answers other agents at /a2a: run `parley adapter web`."),
        ("terminal", {}, "terminal is no chat platform; run `parley chat`."),
        ("mcp", {}, "mcp is no chat platform; run `parley mcp`."),
        ("slak", {}, "there are: a2a, discord, kubernetes, matrix, mcp, slack, terminal, web. Did you mean slack?"),
    ],
)
def test_an_adapter_that_cannot_run_says_what_to_set_or_to_run_instead(
    fresh: Shell, name: str, settings: dict[str, str], message: str
) -> None:
    result = fresh.run("adapter", name, **settings)

    assert message in result.err
    assert result.err.count("\n") == 1
    assert (result.code, result.out) == (2, "")


def test_a_typo_in_a_platform_s_setting_is_reported_with_the_right_name(fresh: Shell) -> None:
    (fresh.folder / ".env").write_text("DISCORD_TOKN=x\n")

    result = fresh.run("adapter", "discord")

    assert "unknown setting DISCORD_TOKN; did you mean DISCORD_TOKEN? Correct or remove the line." in result.err
    assert result.code == 2
