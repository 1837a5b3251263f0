"""`parley chat` through a pipe: plain lines in, plain answers out."""

import json
import os
import pwd
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

import pytest
from PIL import Image

from shared.db.database import Address
from shared.db.hosts import URL
from tests.adapters.cli.shell import Shell
from tests.support.eventually import PATIENCE

LOGIN = pwd.getpwuid(os.getuid()).pw_name


def talk(shell: Shell, *lines: str, **settings: str) -> str:
    result = shell.run("chat", stdin="".join(f"{line}\n" for line in lines), **settings)
    assert result.code == 0, result.err
    return result.out


def ask(chat: "Popen[str]", text: str) -> str:
    """Write one line to a running chat and read one."""
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write(f"{text}\n")
    chat.stdin.flush()
    return chat.stdout.readline().strip()


def test_a_conversation_remembers_across_two_sittings(shell: Shell) -> None:
    talk(shell, "remember that my cat is called Tom")

    assert "Tom" in talk(shell, "what do you know about my cat?")


def test_who_starts_it_on_an_embedded_database_is_the_owner(shell: Shell) -> None:
    output = talk(shell, "/me", "/budget")

    assert f"You are {LOGIN} (user 1) with the permission owner." in output
    assert "Your budget is unlimited" in output


def test_empty_lines_say_nothing_odd_bytes_do_no_harm_and_what_comes_after_quit_is_not_read(shell: Shell) -> None:
    lines = ("", "   ", "/budgte \x00 \x1b[31m", "hello", "/quit", "what is 12*7?")
    output = talk(shell, *lines, DEBUG_MOCK_RESPONSES='["fine"]')

    assert output.startswith("There is no command budgte")
    assert output.endswith("\nfine\nGoodbye.\n")
    assert output.count("fine") == 1


def test_a_file_is_attached_or_dropped_and_known_afterwards_and_a_missing_one_is_reported(
    shell: Shell, tmp_path: Path
) -> None:
    plan, dropped = tmp_path / "our plan.txt", tmp_path / "dropped.txt"
    for path in (plan, dropped):
        path.write_text("First we eat.")
    # The slash as a Japanese keyboard writes it, too.
    files = (
        f"\uff0fattach {plan}",
        "keep this",
        "list my files",
        f"'{dropped}'",
        "keep this",
        f"/attach {tmp_path / 'no'}",
    )

    # A last line without an end is a line, too.
    result = shell.run("chat", stdin="\n".join((*files, "what is 12*7?")))

    notes = [line for line in result.err.splitlines() if "goes with" in line]
    assert notes == [f"{name} (13 bytes) goes with your next message." for name in ("our plan.txt", "dropped.txt")]
    assert "our plan.txt" in result.out
    assert "There is no file" in result.err
    assert "84" in result.out.splitlines()[-1]


def test_without_landlock_no_file_is_opened_and_person_and_model_are_told_the_remedy(
    fresh: Shell, tmp_path: Path
) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "picture.png"
    page.write_text("<p>First we eat.</p>")
    Image.new("RGB", (2, 2)).save(picture)
    unsafe = replace(fresh, has_landlock=False)
    calls = [{"name": "file_manager.read_document", "arguments": {"file_id": 1}}]
    script = json.dumps(["Thank you.", {"tool_calls": calls}, "I have read it.", "A fine picture.", "You are welcome."])

    output = talk(
        unsafe,
        *(f"/attach {page}", "look at this", "read it", f"/attach {picture}", "and at this", "thanks"),
        DEBUG_MOCK_RESPONSES=script,
    )

    beginning, document, image, thanked = re.split(r"I have read it\.|A fine picture\.|You are welcome\.", output)
    remedy = "Parley needs Linux 5.13 or newer with Landlock switched on"
    for notice in (document, image):
        assert "I open no files here, because this system has no Landlock" in notice
        assert remedy in notice
    assert "Landlock" not in beginning + thanked
    results = fresh.says("psql", "--superuser", "-At", "-c", "SELECT content FROM messages WHERE role = 'tool_result'")
    assert "Nothing from outside can be opened here" in results
    assert remedy in results
    contents = fresh.says("psql", "--superuser", "-At", "-c", "SELECT content FROM messages")
    assert "First we eat." not in contents + output


def test_a_missing_file_is_reported_and_the_conversation_goes_on(shell: Shell, tmp_path: Path) -> None:
    # No account has the second one's name, and the third is no address.
    paths = (tmp_path / "no such", "~nobody-of-that-name/plan.txt", "file://[plan")
    result = shell.run("chat", stdin="".join(f"/attach {path}\n" for path in paths) + "what is 12*7?\n")

    assert result.err.count("There is no file") == len(paths)
    assert (result.code, "84" in result.out) == (0, True)


@pytest.mark.parametrize("is_pipe_instead", [False, True])
def test_a_file_that_is_gone_when_it_is_sent_keeps_back_one_message_alone(
    shell: Shell, tmp_path: Path, *, is_pipe_instead: bool
) -> None:
    plan = tmp_path / "plan.txt"
    plan.write_text("First we eat.")
    with shell.start("chat") as chat:
        assert chat.stdin is not None
        assert chat.stderr is not None
        chat.stdin.write(f"/attach {plan}\n")
        chat.stdin.flush()
        while "goes with your next message" not in chat.stderr.readline():
            assert chat.poll() is None
        plan.unlink()
        if is_pipe_instead:
            os.mkfifo(plan)
        out, err = chat.communicate("keep this\nwhat is 12*7?\n")

    cause = "it is no file" if is_pipe_instead else "No such file or directory"
    assert f"{plan} can't be read any more: {cause}. Nothing was sent." in err
    assert (chat.returncode, "84" in out) == (0, True)


def test_what_stays_with_the_person_is_done_without_a_question(fresh: Shell, tmp_path: Path) -> None:
    plan = tmp_path / "plan.txt"
    plan.write_text("First we eat.")

    output = talk(
        fresh,
        f"/attach {plan}",
        "keep this",
        "read file 1",
        *("remember that we eat first", "what do you remember about me?"),
    )

    assert "Shall I use" not in output
    assert "I will remember that: we eat first" in output
    assert output.endswith("- we eat first\n")


def test_help_names_what_only_a_terminal_has(shell: Shell) -> None:
    output = talk(shell, "/help")

    for command in ("/attach PATH", "/budget", "/quit", "/stop"):
        assert f"\n{command} - " in output


def test_tool_calls_and_files_are_shown_without_control_characters(fresh: Shell) -> None:
    note = {"title": "Tea", "content": "hot", "format": "md"}
    script = [
        {"content": "One moment.", "tool_calls": [{"name": "file_manager.create_document", "arguments": note}]},
        "\u001b[2Jhere \u202eit\u001b]0;owned\u0007 is",
    ]

    result = fresh.run("chat", stdin="write\n", DEBUG_MOCK_RESPONSES=json.dumps(script))

    assert result.out.splitlines()[0] == "[2Jhere it]0;owned is"
    assert result.out.splitlines()[1].startswith(
        "file: Tea.md (text/markdown, 11 bytes) http://127.0.0.1:8080/files/1?"
    )
    assert "tool: file_manager.create_document " in result.err


def test_an_admin_s_change_counts_from_the_next_message_on(shell: Shell) -> None:
    chat = shell.start("chat", DEBUG_MOCK_RESPONSES='["fine"]')
    with chat:
        assert ask(chat, "hello") == "fine"
        shell.says("user", "set-budget", LOGIN, "1")
        assert ask(chat, "hello").startswith("You have used this month's budget; it renews on ")
        assert "of 1 tokens; 0 are left" in ask(chat, "/budget")
        shell.says("user", "promote", LOGIN, "owner")
        assert ask(chat, "hello") == "fine"
        shell.says("persona", "create", "Pirate", "--prompt", "Arr.", "--default")
        assert ask(chat, "/persona").startswith("Pirate answers here")
        shell.says("persona", "set-default", "none")
        assert chat.stdin is not None
        chat.stdin.close()
        # One of the messages was refused.
        assert chat.wait(PATIENCE) == 3


def test_a_model_that_fails_is_not_exit_code_0(shell: Shell) -> None:
    result = shell.run(
        "chat", stdin="hello\n", DEBUG_MOCK_RESPONSES='[{"content": "", "error": "AuthenticationError"}]'
    )

    assert "language model" in result.out
    assert result.code == 3


def test_sigterm_ends_it_and_stops_the_database(fresh: Shell) -> None:
    assert end_by(fresh, signal.SIGTERM) == 143
    assert not (fresh.home / "postgres" / "postmaster.pid").exists()


def test_a_database_that_is_killed_is_started_again_and_the_conversation_goes_on(fresh: Shell) -> None:
    with fresh.start("chat", DEBUG_MOCK_RESPONSES='["fine"]') as chat:
        assert ask(chat, "hello") == "fine"
        killed = kill_postmaster(fresh)
        assert ask(chat, "hello again") == "fine"
        assert find_postmaster(fresh) != killed
        chat.send_signal(signal.SIGTERM)
        assert chat.wait(PATIENCE) == 143


def test_an_mcp_server_starts_a_database_that_is_killed_again(fresh: Shell) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with fresh.start("mcp") as server:
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        assert "serverInfo" in ask(server, json.dumps(begin))
        killed = kill_postmaster(fresh)
        end = time.monotonic() + 60
        while find_postmaster(fresh) in (None, killed):
            assert time.monotonic() < end
            time.sleep(0.1)
        server.communicate(timeout=30)
        assert server.returncode == 0


def find_postmaster(shell: Shell) -> int | None:
    """Return the process id of the embedded Postgres."""
    try:
        return int((shell.home / "postgres" / "postmaster.pid").read_text().split()[0])
    except (OSError, IndexError):
        return None


def kill_postmaster(shell: Shell) -> int:
    """Kill the embedded Postgres, as a system without memory does, and return its process id."""
    postmaster = find_postmaster(shell)
    assert postmaster is not None
    os.kill(postmaster, signal.SIGKILL)
    return postmaster


def test_ctrl_c_ends_it(shell: Shell) -> None:
    assert end_by(shell, signal.SIGINT) == 130


def end_by(shell: Shell, number: signal.Signals) -> int:
    with shell.start("chat", DEBUG_MOCK_RESPONSES='["fine"]') as chat:
        assert ask(chat, "hello") == "fine"
        chat.send_signal(number)
        code = chat.wait(PATIENCE)
        assert chat.stderr is not None
        assert "Traceback" not in chat.stderr.read()
    return code


async def test_on_a_database_of_one_s_own_who_starts_it_is_the_owner_too(fresh: Shell, address: Address) -> None:
    own_shell = Shell(fresh.folder, {"DATABASE_URL": to_text(address.url)})

    output = talk(own_shell, "/me", "/budget")

    assert "with the permission owner" in output
    assert "Your budget is unlimited" in output
    assert f"the link opens the page as {LOGIN} (owner)" in own_shell.run("link").err


def to_text(url: URL) -> str:
    return url.to_text(hide_password=False)
