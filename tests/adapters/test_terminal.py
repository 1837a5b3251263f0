"""The terminal: what files are called, how an answer is shown, and a person at a real keyboard."""

import io
import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from adapters.terminal.files import find_dragged, find_file, to_path
from adapters.terminal.live import LiveOutput
from adapters.terminal.output import OneAnswer, Output, PlainOutput
from agent.journal.steps import Event
from shared.errors import Refusal
from shared.text import CONTROLS
from tests.adapters.cli.shell import Shell
from tests.support.eventually import PATIENCE
from tests.support.folders import temporary_folder
from tests.support.keyboard import Keyboard, at_keyboard, to_screen

FILE = {"file_id": 1, "filename": "a.md", "mime_type": "text/markdown", "size_bytes": 2048, "url": "http://h/files/1"}
# A prompt that waits for keys asks for pastes to be marked.
PROMPT = "\x1b[?2004h"
CTRL_C, CTRL_D, ALT_ENTER = "\x03", "\x04", "\x1b\r"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/home/a b.txt", "/home/a b.txt"),
        ("'/home/a b.txt' ", "/home/a b.txt"),
        ("/home/a\\ b.txt", "/home/a b.txt"),
        ("file:///home/a%20b.txt", "/home/a b.txt"),
        ("/home/it's", "/home/it's"),
        ("notes.txt", "notes.txt"),
    ],
)
def test_a_path_is_read_however_it_is_written(text: str, path: str) -> None:
    assert to_path(text) == Path(path)


def test_only_a_whole_line_that_is_a_file_counts_as_dropped(tmp_path: Path) -> None:
    file = tmp_path / "a b.txt"
    file.write_text("x")

    assert find_dragged(f"'{file}'") == file
    for line in (f"see {file}", str(tmp_path), f"{file}.missing", f"{file}\nmore", "/" + "x" * 5000, "/help"):
        assert find_dragged(line) is None


def test_a_file_that_cannot_go_is_refused_with_the_reason(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(2 * 1024 * 1024)

    with pytest.raises(Refusal, match="too large: 2 MB, and MAX_BODY_MB is 1"):
        find_file(str(large), limit_mb=1)
    with pytest.raises(Refusal, match="There is no file"):
        find_file(str(tmp_path), limit_mb=1)
    with pytest.raises(Refusal, match="can't be read"):
        find_file("/" + "x" * 5000, limit_mb=1)


def tell(output: Output, *events: tuple[str, dict[str, Any]]) -> None:
    for seq, (name, payload) in enumerate(events):
        output.show(Event(1, seq, name, payload))


def message(content: str, *files: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return ("message", {"content": content, "files": list(files)})


def delta(text: str, **more: bool) -> tuple[str, dict[str, Any]]:
    return ("text_delta", {"text": text, **more})


WORDS = {
    "weather.get": ("Looking up the weather[ in {place}][ on {day}]", "Looked up the weather[ in {place}][ on {day}]")
}


END = ("turn_complete", {"usage": {"input_tokens": 1200, "output_tokens": 34, "cost": 0.0123}, "model": "small"})


@pytest.mark.parametrize(
    ("error", "iterations", "out"),
    [(None, 1, "Half.\n"), ("limit_exhausted", 1, "Half.\n"), ("models_unavailable", 0, ""), ("stopped", 1, "")],
)
def test_what_is_no_answer_is_not_on_stdout(
    error: str | None, iterations: int, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = OneAnswer()
    tell(output, message("Half."))
    output.end({"error": error, "iterations": iterations}, 1.0)

    capture = capsys.readouterr()
    assert capture.out == out
    assert ("Half." in capture.err) is (not out)


class Screen:
    """A terminal of a width, with what stands on it."""

    def __init__(self, columns: int = 60, environment: Mapping[str, str] | None = None) -> None:
        self._file = io.StringIO()
        console = Console(file=self._file, force_terminal=True, width=columns, height=20, _environ=environment)
        self.output = LiveOutput(console, find_words=WORDS.get, is_conversation=False)

    def shows(self, *events: tuple[str, dict[str, Any]]) -> str:
        """Tell the events and return what is to be read."""
        tell(self.output, *events)
        return to_screen(self.written)

    @property
    def written(self) -> str:
        """Return all that was written."""
        return self._file.getvalue()


def test_an_answer_that_was_streamed_is_not_written_twice() -> None:
    assert Screen().shows(delta("Hel"), delta("lo."), message("Hello.")) == "Hello.\n"


def test_an_answer_that_is_stopped_is_not_written_twice() -> None:
    screen = Screen()
    assert screen.shows(delta("Half of")) == "Half of"
    screen.output.stop()
    assert to_screen(screen.written) == "Half of\nstopping…"
    assert screen.shows(message("Half of\n\nStopped.")) == "Half of\n\nStopped.\n"


def test_what_the_stored_answer_adds_is_written() -> None:
    screen = Screen(columns=80)

    assert screen.shows(delta("Hello"), message("Hello, Ann.", FILE)) == (
        "Hello, Ann.\nfile: a.md (text/markdown, 2 kB) http://h/files/1\n"
    )


def test_a_table_that_is_wider_than_the_terminal_loses_no_digit() -> None:
    table = "| sum | address |\n|---|---|\n| 1234567890 | https://example.org/a/long/path |"
    text = Screen(columns=24).shows(message(table))

    cells = [line.split() for line in text.splitlines()[2:]]
    assert "".join(cell for line in cells for cell in line[:1] if cell.isdigit()) == "1234567890"
    assert "…" not in text


def test_a_stored_answer_that_differs_is_written_whole() -> None:
    text = Screen().shows(delta("First.\n\nHell"), message("I have to stop here."))

    assert text == "First.\n\nI have to stop here.\n"


def test_a_reset_of_the_stream_is_shown() -> None:
    text = Screen().shows(delta("Hel"), delta("", reset=True), delta("Good day."), message("Good day."))

    assert text == "Hel\n(the answer begins anew)\nGood day.\n"


def call(tool: str = "weather.get", **arguments: object) -> tuple[str, dict[str, Any]]:
    return ("tool_call", {"id": "1", "tool": tool, "args": arguments})


def result(*, error: bool = False, **more: bool) -> tuple[str, dict[str, Any]]:
    return ("tool_result", {"id": "1", "tool": "any", "result": {}, "error": error, **more})


def test_a_tool_call_is_one_line_of_words_between_the_texts() -> None:
    screen = Screen()
    screen.output.wait()

    text = screen.shows(delta("One moment."), call(place="Lisbon\u202e", day=""), result(), delta("S"), message("Sun."))

    assert "Looking up the weather in Lisbon…" in screen.written
    assert text == "One moment.\n· Looked up the weather in Lisbon\nSun.\n"


@pytest.mark.parametrize(
    ("events", "line"),
    [
        ((call(place="Lisbon"), result(error=True)), "✗ Looking up the weather in Lisbon: failed\n"),
        ((call("shop.find_rooms"), result()), "· Used find rooms (shop)\n"),
        ((call(place="x\n" * 300), result()), f"· Looked up the weather in {'x ' * 39}x…\n"),
        ((call(), result(error=True, needs_approval=True)), ""),
    ],
)
def test_what_became_of_a_tool_call_is_told_in_words(events: list[tuple[str, dict[str, Any]]], line: str) -> None:
    assert Screen(columns=200).shows(*events, message("Sun.")) == f"{line}Sun.\n"


def test_markdown_is_rendered_block_by_block_as_it_comes() -> None:
    markdown = "# Plan\n\nSee [this](https://h/a).\n\n- one\n- two\n\n```\nx = 1\n```\n\nThe **end**."
    screen = Screen(environment={"TERM": "xterm"})

    text = screen.shows(*(delta(letter) for letter in markdown), message(markdown))

    assert text == "Plan\n\nSee this (https://h/a).\n\n • one\n • two\n\nx = 1\n\nThe end.\n"


def test_the_end_of_an_answer_tells_model_tokens_cost_and_seconds() -> None:
    screen = Screen()
    screen.output.end(END[1], 2.34)

    # The shell's prompt follows at once.
    assert to_screen(screen.written) == "small · 1,234 tokens · $0.0123 · 2.3 s\n"


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1", "TERM": "xterm-256color"}, {"TERM": "dumb"}])
def test_without_colours_there_are_none(environment: dict[str, str]) -> None:
    screen = Screen(environment=environment)
    screen.shows(
        delta("# Plan\n\n```python\nx = 1\n```\n\n`code`"), message("# Plan\n\n```python\nx = 1\n```\n\n`code`")
    )

    assert re.search(r"\x1b\[(?:\d+;)*[349]\d", screen.written) is None


def test_the_answer_to_a_command_is_broken_between_words_and_links_stay_whole() -> None:
    screen, link = Screen(columns=40), f"https://example.org/{'x' * 60}"

    screen.output.write(f"/memory list|forget WHAT - List what I remember about you\n{link}")

    assert screen.written.splitlines() == [
        "/memory list|forget WHAT - List what I",
        "remember about you",
        link,
    ]


def test_what_does_not_fit_on_the_screen_is_written_once() -> None:
    code = "```\n" + "".join(f"line {number}\n" for number in range(50)) + "```"
    screen = Screen()

    text = screen.shows(*(delta(line) for line in code.splitlines(keepends=True)), message(code))

    assert text.splitlines() == [f"line {number}" for number in range(50)]


def test_text_of_a_model_contains_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\x1b]0;owned\x07a\rb\x9bc\u202ed\nline"
    tell(PlainOutput(), message(text))

    assert capsys.readouterr().out == "]0;ownedabcd\nline\n"
    assert Screen().shows(message(text)) == "]0;ownedabcd line\n"


def test_markdown_makes_no_control_characters() -> None:
    text = "a&#x202e;b `&#27;` &#27;]0;t&#7; [c](http://x/&#x2066;)\n\n| d&#x9b;1m&#x2067; |\n|-|\n"
    screen = Screen()
    screen.shows(delta(text), message(text))

    # What we write ourselves begins with ESC [.
    assert set(CONTROLS.findall(screen.written.replace("\x1b[", ""))) <= {"\r"}


@pytest.mark.parametrize("output", [OneAnswer, PlainOutput])
def test_what_is_no_answer_controls_no_terminal_either(
    output: type[PlainOutput], capsys: pytest.CaptureFixture[str]
) -> None:
    question = message("Send \x1b]52;c;QQ==\x07 it?")
    question[1]["confirmation"] = {}
    tell(output(), question)
    output().note("There is no file \x1b[2Jx.")

    capture = capsys.readouterr()
    assert "Send ]52;c;QQ== it?\n" in capture.out + capture.err
    assert capture.err.endswith("There is no file [2Jx.\n")
    screen = Screen()
    screen.output.note("\x1b]0;t\x07")
    assert "\x1b]0" not in screen.written


def test_a_pipe_gets_the_answer_alone_and_notes_go_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    tell(PlainOutput(), delta("Hel"), call(place="Lisbon"), message("Hello.", FILE))

    capture = capsys.readouterr()
    assert capture.out == "Hello.\nfile: a.md (text/markdown, 2 kB) http://h/files/1\n"
    assert capture.err.startswith("tool: weather.get ")


def test_a_person_at_the_keyboard_talks_stops_an_answer_and_leaves() -> None:
    script = json.dumps(["fine", {"content": "too late", "delay": 60}, "line by line"])
    with temporary_folder("tty") as folder:
        shell = Shell(folder)
        with at_keyboard(shell, "chat", settings={"DEBUG_MOCK_RESPONSES": script}) as keyboard:
            assert "(owner)" in keyboard.until("Ctrl+D: leave.")
            keyboard.until(PROMPT)
            keyboard.type("hello\r")
            keyboard.until("fine\r\n")
            keyboard.until(PROMPT)

            keyboard.type("a long story\r")
            keyboard.until("thinking…")
            wait_for_a_turn(shell)
            os.kill(keyboard.program.pid, signal.SIGINT)
            keyboard.until("stopping…")
            keyboard.until("Stopped.")
            keyboard.until(PROMPT)

            for typed in ("/bud", ""):
                keyboard.type(f"{typed}{CTRL_C}")
                keyboard.until(PROMPT)
            keyboard.type(f"first{ALT_ENTER}second\r")
            keyboard.until("line by line")
            keyboard.until(PROMPT)
            keyboard.type("/budget\r")
            keyboard.until("Your budget is unlimited")
            keyboard.until(PROMPT)
            enter_credential(keyboard, shell.home / "chat_history")
            keyboard.type(CTRL_D)
            assert keyboard.program.wait(PATIENCE) == 0

        output = shell.says("psql", "-At", "-c", "SELECT content FROM messages WHERE role = 'user' ORDER BY id")
        assert output == "hello\na long story\nfirst\nsecond\n"
        assert (shell.home / "chat_history").stat().st_mode & 0o777 == 0o600


def enter_credential(keyboard: Keyboard, history: Path) -> None:
    keyboard.type("/credential set pms\r")
    keyboard.until(PROMPT)
    keyboard.type("lantern-4711-wagon\r")
    keyboard.until("I keep your credential pms encrypted")
    keyboard.until(PROMPT)
    assert "lantern" not in keyboard.screen + history.read_text()


def wait_for_a_turn(shell: Shell) -> None:
    # In the database: each look from outside would be a program of its own.
    shell.says(
        "psql",
        "-c",
        "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM turns WHERE status = 'running') "
        "LOOP PERFORM pg_sleep(0.05); END LOOP; END $$",
    )
