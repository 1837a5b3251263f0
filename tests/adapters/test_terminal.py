"""The terminal: what files are called, how an answer is shown, and a person at a real keyboard."""

import json
import os
import pty
import re
import select
import signal
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from adapters.terminal.files import find_dragged, find_file, to_path
from adapters.terminal.output import LiveOutput, Output, PlainOutput
from agent.journal.steps import Event
from shared.errors import Refusal
from tests.adapters.cli.shell import PARLEY, Shell
from tests.support.folders import temporary_folder

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


CALL = ("tool_call", {"id": "1", "tool": "knowledge.recall", "args": {"query": "x" * 300}})


def test_an_answer_that_was_streamed_is_not_written_twice(capsys: pytest.CaptureFixture[str]) -> None:
    tell(LiveOutput(), delta("Hel"), delta("lo."), message("Hello."))

    assert capsys.readouterr().out == "Hello.\n\n"


def test_what_the_stored_answer_adds_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    tell(LiveOutput(), delta("Hello"), message("Hello, Ann.", FILE))

    assert capsys.readouterr().out == "Hello, Ann.\nfile: a.md (text/markdown, 2 kB) http://h/files/1\n\n"


def test_a_stored_answer_that_differs_is_written_whole(capsys: pytest.CaptureFixture[str]) -> None:
    tell(LiveOutput(), delta("Hell"), message("I have to stop here."))

    assert capsys.readouterr().out == "Hell\nI have to stop here.\n\n"


def test_a_reset_of_the_stream_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tell(LiveOutput(), delta("Hel"), delta("", reset=True), delta("Good day."), message("Good day."))

    assert "Hel\n\x1b[2m(the answer begins anew)\x1b[0m\nGood day.\n\n" in capsys.readouterr().out


def test_a_tool_call_is_one_dim_line_between_the_texts(capsys: pytest.CaptureFixture[str]) -> None:
    output = LiveOutput()
    output.wait()
    tell(output, delta("One moment."), CALL, delta("Found."), message("Found."))

    capture = capsys.readouterr().out
    assert re.search(r"\r\x1b\[2KOne moment\.\n\x1b\[2m· knowledge\.recall \{\"query\": \"x+…\x1b\[0m\n", capture)
    assert capture.endswith("thinking…\x1b[0m\r\x1b[2KFound.\n\n")
    assert max(map(len, capture.splitlines())) < 200


def test_a_failed_tool_call_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    tell(LiveOutput(), ("tool_result", {"id": "1", "tool": "a.b", "result": {}, "error": True}))

    assert "a.b failed" in capsys.readouterr().out


@pytest.mark.parametrize("output", [LiveOutput(), PlainOutput()])
def test_text_of_a_model_contains_no_control_characters(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    tell(output, message("\x1b]0;owned\x07a\rb\x9bc\u202ed\ttab\nline"))

    capture = capsys.readouterr().out
    assert capture.startswith("]0;ownedabcd\ttab\nline\n")


def test_a_pipe_gets_the_answer_alone_and_notes_go_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    tell(PlainOutput(), delta("Hel"), CALL, message("Hello.", FILE))

    capture = capsys.readouterr()
    assert capture.out == "Hello.\nfile: a.md (text/markdown, 2 kB) http://h/files/1\n"
    assert capture.err.startswith("tool: knowledge.recall ")


class Keyboard:
    """A person at a terminal: types, and reads what is on the screen."""

    def __init__(self, device: int, program: "Popen[bytes]") -> None:
        self.program = program
        self.screen = ""
        self._device = device
        self._read_to = 0

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._device, text.encode())

    def until(self, text: str, seconds: float = 60) -> str:
        """Read on until this is shown; return what came up to it."""
        deadline = time.monotonic() + seconds
        while text not in self.screen[self._read_to :]:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.screen[self._read_to :]!r}"
            self.screen += self._read()
        end = self.screen.index(text, self._read_to) + len(text)
        output, self._read_to = self.screen[self._read_to : end], end
        return output

    def _read(self) -> str:
        if not select.select([self._device], [], [], 1)[0]:
            return ""
        try:
            chunk = os.read(self._device, 65536)
        except OSError:
            # The program has ended and its side of the terminal is closed.
            raise AssertionError(f"it ended after {self.screen!r}") from None
        if b"\x1b[6n" in chunk:
            # The terminal is asked where its cursor is.
            self.type("\x1b[1;1R")
        return chunk.decode(errors="replace")


@contextmanager
def at_keyboard(shell: Shell, **settings: str) -> Iterator[Keyboard]:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    program = Popen(
        [PARLEY, "chat"],
        cwd=shell.folder,
        env=shell.environment(**settings),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Keyboard(ours, program)
    finally:
        # Its Postgres ends with it.
        program.terminate()
        program.wait(30)
        os.close(ours)


def test_a_person_at_the_keyboard_talks_stops_an_answer_and_leaves() -> None:
    script = json.dumps(["fine", {"content": "too late", "delay": 60}, "line by line"])
    with temporary_folder("tty") as folder:
        shell = Shell(folder)
        with at_keyboard(shell, DEBUG_MOCK_RESPONSES=script) as keyboard:
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
            assert keyboard.program.wait(30) == 0

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
    query = "SELECT count(*) FROM turns WHERE status = 'running'"
    deadline = time.monotonic() + 60
    while shell.says("psql", "-At", "-c", query) != "1\n":
        assert time.monotonic() < deadline
