"""`parley ask`: one question, one answer, through a pipe or at a keyboard."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.adapters.cli.shell import Shell
from tests.adapters.cli.test_running import running_parley
from tests.support.eventually import PATIENCE
from tests.support.keyboard import at_keyboard

BOOKINGS = '''"""Bookings."""

from shared.messages import Permission
from shared.tools import ToolContext, tool


@tool(requires=Permission.USER)
async def cancel(context: ToolContext, number: int) -> str:
    """Cancel a booking."""
    await context.confirm(f"Cancel booking {number}?")
    return f"Booking {number} is cancelled."
'''
CALL = {"content": "", "tool_calls": [{"name": "bookings.cancel", "arguments": {"number": 7}}]}
FAILURE = '[{"content": "", "error": "AuthenticationError"}]'


@pytest.fixture
def bookings(tmp_path: Path) -> dict[str, str]:
    """The settings for a tool that needs a yes, and a model that calls it."""
    (tmp_path / "bookings").mkdir()
    (tmp_path / "bookings" / "__init__.py").write_text(BOOKINGS, "utf-8")
    return {"MODULES_PATH": str(tmp_path), "DEBUG_MOCK_RESPONSES": json.dumps([CALL, "As you wish."])}


def test_the_answer_alone_is_on_stdout_and_raw(shell: Shell) -> None:
    result = shell.run("ask", "how", "is", "it?", DEBUG_MOCK_RESPONSES='["**fine**\\n\\n- `one`"]')

    assert (result.code, result.out, result.err) == (0, "**fine**\n\n- `one`\n", "")


def test_a_pipe_s_input_is_one_prompt_and_below_a_question_its_data(shell: Shell) -> None:
    shell.run("ask", stdin="first line\n\nthird line\n", DEBUG_MOCK_RESPONSES='["fine"]')
    shell.run("ask", "what is this?", stdin="a ```fence``` of it\n", DEBUG_MOCK_RESPONSES='["fine"]')

    query = "SELECT json_agg(content) FROM (SELECT content FROM messages WHERE role = 'user' ORDER BY id DESC LIMIT 2)"
    assert json.loads(shell.says("psql", "--superuser", "-At", "-c", f"{query} AS last")) == [
        "what is this?\n\n````\na ```fence``` of it\n````",
        "first line\n\nthird line",
    ]


def test_each_question_begins_anew_unless_it_goes_on(shell: Shell) -> None:
    talk = {"DEBUG_MOCK_RESPONSES": '["one", "two", "three"]'}

    answers = [shell.says("ask", *words, "next", **talk).strip() for words in ([], [], ["-c"], ["--continue"])]

    assert answers == ["one", "one", "two", "three"]


def test_a_program_gets_the_answer_as_the_api_gives_it(shell: Shell) -> None:
    answer = json.loads(shell.says("ask", "hello", "--json", DEBUG_MOCK_RESPONSES='["fine"]'))

    assert (answer["content"], answer["error"], answer["finished"], answer["model"]) == ("fine", None, True, "mock")
    assert {"turn_id", "files", "tool_calls_made", "iterations", "usage", "conversation_id"} <= set(answer)
    failure = shell.run("ask", "hello", "--json", DEBUG_MOCK_RESPONSES=FAILURE)
    assert (failure.code, json.loads(failure.out)["error"]) == (1, "models_unavailable")


def test_no_model_is_one_sentence_on_stderr_and_exit_code_1(shell: Shell) -> None:
    result = shell.run("ask", "hello", DEBUG_MOCK_RESPONSES=FAILURE)

    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("parley: I can't reach any language model just now")
    assert "Traceback" not in result.err


def test_persona_and_model_are_chosen_for_one_question(shell: Shell) -> None:
    shell.says("persona", "create", "Pirate", "--prompt", "Arr.")

    answer = json.loads(shell.says("ask", "hi", "--json", "--persona", "Pirate", DEBUG_MOCK_RESPONSES='["Arr!"]'))

    assert "Pirate" in (story := shell.says("explain", str(answer["turn_id"])))
    assert "who asked has chosen it" in story
    for options, reason in ((["--persona", "Nobody"], "there is no persona 'Nobody'"), (["-m", "no/such"], "no/such")):
        result = replace(shell, is_loaded=True).run("ask", "hi", *options)
        assert (result.code, result.out) == (1, "")
        assert reason in result.err


def test_a_file_goes_along_and_one_that_is_missing_is_named(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "plan.txt").write_text("First we eat.")

    shell.says("ask", "keep this", "-f", str(tmp_path / "plan.txt"), DEBUG_MOCK_RESPONSES='["fine"]')

    # What a shell would make of the second name is the name of another file.
    (tmp_path / "pl\\an.txt").write_text("Then we drink.")
    shell.says("ask", "this, too", "-f", str(tmp_path / "pl\\an.txt"), DEBUG_MOCK_RESPONSES='["fine"]')

    sizes = shell.says("psql", "--superuser", "-At", "-c", "SELECT size_bytes FROM file_records ORDER BY id")
    names = shell.says("psql", "--superuser", "-At", "-c", "SELECT filename FROM file_records ORDER BY id LIMIT 1")
    assert (names, sizes) == ("plan.txt\n", "13\n14\n")
    assert "There is no file" in (missing := shell.run("ask", "read it", "-f", str(tmp_path / "no"))).err
    assert missing.code == 1


def test_what_has_no_end_or_is_no_file_is_not_read(shell: Shell, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, sentence in (
        # Only the system's administrator may open it, and then it waits for the next message of the system.
        ("/proc/kmsg", "/proc/kmsg can't be read"),
        ("/dev/zero", "There is no file /dev/zero, but something else, which can't be sent."),
        (str(tmp_path / "pipe"), "pipe, but something else, which can't be sent."),
    ):
        result = shell.run("ask", "read it", "-f", path)
        assert (result.code, result.out, sentence in result.err) == (1, "", True), result.err


@pytest.mark.parametrize("command", ["ask", "chat"])
@pytest.mark.parametrize("beginning", ["\ufeff \u200b/", "/\u200b", "\uff0f", "/ "])
def test_a_command_is_one_however_its_slash_is_written(shell: Shell, command: str, beginning: str) -> None:
    result = shell.run(command, stdin=f"{beginning}credential set github hunter2hunter2\n")

    assert (result.code, result.out.startswith("I keep your credential github encrypted")) == (0, True)


def test_what_comes_through_a_pipe_stands_behind_a_command_as_it_is(shell: Shell) -> None:
    short = shell.run("ask", "/credential set pms", stdin="hunter2\n")
    long = shell.run("ask", "/credential", "set", "pms", stdin="hunter2hunter2\n")

    assert (short.code, short.out.startswith("I keep")) == (0, False)
    assert (long.code, long.out.startswith("I keep your credential pms")) == (0, True)


@pytest.mark.parametrize("stdin", ["", "\x00\x01"])
def test_what_is_no_question_is_refused_with_what_to_do(shell: Shell, stdin: str) -> None:
    result = shell.run("ask", stdin=stdin)

    assert (result.code != 0, result.out) == (True, "")
    assert ("--file PATH" if stdin else 'parley ask "What is …?"') in result.err


def test_a_tool_that_needs_a_yes_is_refused_in_a_pipe(shell: Shell, bookings: dict[str, str]) -> None:
    result = shell.run("ask", "cancel it", **bookings)

    assert (result.code, result.out) == (1, "")
    assert "Cancel booking 7?" in result.err
    assert "only a terminal can give: nothing of it was done" in result.err
    status = shell.says("psql", "-At", "-c", "SELECT status FROM confirmations ORDER BY id DESC LIMIT 1")
    assert status == "expired\n"


def test_chat_with_a_text_asks_it_and_ends(shell: Shell) -> None:
    assert shell.says("chat", "hello", DEBUG_MOCK_RESPONSES='["fine"]') == "fine\n"


def test_at_a_keyboard_the_answer_is_rendered_and_a_yes_runs_the_tool(shell: Shell, bookings: dict[str, str]) -> None:
    with at_keyboard(shell, "ask", "cancel it", settings=bookings) as keyboard:
        keyboard.until("Cancel booking 7?")
        keyboard.until("Do it? (y/N)")
        keyboard.type("y\r")
        keyboard.until("As you wish.")
        keyboard.until("mock · ")
        assert keyboard.program.wait(PATIENCE) == 0

    results = shell.says("psql", "--superuser", "-At", "-c", "SELECT content FROM messages WHERE role = 'tool_result'")
    assert "Booking 7 is cancelled." in results


def test_beside_a_running_parley_its_workers_answer(shell: Shell) -> None:
    theirs, ours = {"DEBUG_MOCK_RESPONSES": '["theirs"]'}, {"DEBUG_MOCK_RESPONSES": '["ours"]'}
    with running_parley(shell, "worker", until="answers come from", WORKERS="1", **theirs):
        assert shell.says("ask", "who?", **ours) == "theirs\n"


def test_a_reader_that_is_gone_is_no_error(shell: Shell) -> None:
    program = shell.start("ask", "count", DEBUG_MOCK_RESPONSES='["1, 2, 3"]')
    with program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdout.close()
        program.stdin.close()
        assert "Traceback" not in program.stderr.read()


def test_ctrl_c_stops_the_answer(shell: Shell) -> None:
    script = json.dumps([{"content": "too late", "delay": 60}])
    with at_keyboard(shell, "ask", "a long story", settings={"DEBUG_MOCK_RESPONSES": script}) as keyboard:
        keyboard.until("thinking…")
        keyboard.program.send_signal(signal.SIGINT)
        assert keyboard.program.wait(PATIENCE) == 130

    assert "too late" not in keyboard.screen
