"""`parley run` and its parts: they start, say so, serve, and stop when asked."""

import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from subprocess import Popen
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.adapters.cli.shell import Shell
from tests.standins.otlp import opened_collector
from tests.support.eventually import PATIENCE


@contextmanager
def running_parley(
    shell: Shell, *arguments: str, until: str, **settings: str
) -> "Iterator[tuple[Popen[str], list[str]]]":
    """Start a command, wait for a line, and give the lines up to it; whatever happens, it ends."""
    running = shell.start(*arguments, **settings)
    try:
        yield running, read_until(running, until)
    finally:
        running.kill()
        running.communicate()


def read_until(running: "Popen[str]", text: str) -> list[str]:
    """Return the lines up to the one with this text."""
    assert running.stdout is not None
    lines: list[str] = []
    for line in running.stdout:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(running.communicate()[1])


def stop(running: "Popen[str]", number: signal.Signals = signal.SIGTERM) -> float:
    """Send a signal; return how many seconds the program took to end in good order."""
    start = time.monotonic()
    running.send_signal(number)
    assert running.wait(PATIENCE) == 0
    return time.monotonic() - start


def find_base(lines: list[str]) -> str:
    match = re.search(r"API +(http://[^/]+)/v1", "\n".join(lines))
    assert match is not None
    return match[1]


def fetch(url: str, token: str | None = None, **body: object) -> tuple[int, str]:
    request = Request(url, data=json.dumps(body).encode() if body else None)  # noqa: S310  # loopback
    request.add_header("Content-Type", "application/json")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urlopen(request, timeout=120) as response:  # noqa: S310  # loopback
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def ask_over_http(shell: Shell, base: str, content: str, person: str = "ann") -> dict[str, object]:
    token = (shell.home / "api_token").read_text().strip()
    status, output = fetch(
        f"{base}/v1/messages",
        token,
        platform="test",
        platform_user_id=person,
        platform_channel_id=f"with-{person}",
        content=content,
    )
    assert status == 200, output
    answer: dict[str, object] = json.loads(output)
    return answer


def test_run_says_what_is_up_serves_and_stops_within_seconds(shell: Shell) -> None:
    # As its users start it, with all imports.
    cold = replace(shell, is_warm=False)
    with running_parley(cold, "run", until="Ctrl+C stops it", PORT="0") as (running, lines):
        base = find_base(lines)
        assert re.fullmatch(r"Parley 0\.\S+ is ready after \d+\.\d s", lines[0])
        link = next(line.split()[1] for line in lines if line.startswith("  page"))
        output = "\n".join(lines)
        for text in ("parley chat", "offline model", "LLM_MODELS=", "OPENAI_API_KEY", "embedded, in"):
            assert text in output

        assert fetch(f"{base}/healthz") == (200, '{"status":"ok"}')
        assert fetch(link)[0] == 200
        assert "84" in str(ask_over_http(shell, base, "what is 12*7?")["content"])
        assert fetch(f"{base}/readyz")[0] == 200
        assert "84" in shell.run("chat", stdin="what is 12*7?\n").out
        # The database knows the modules of the program that runs.
        misspelled = shell.run("persona", "create", "Clerk", "--prompt", "Help.", "--modules", "knowlege")
        assert 'there is no module "knowlege"; do you mean knowledge?' in misspelled.err

        assert stop(running) < 10


def test_a_model_without_a_key_is_named_after_the_start_and_ctrl_c_stops_it_too(shell: Shell) -> None:
    warning = "  model     gpt-4o-mini needs OPENAI_API_KEY, which is not set"
    with running_parley(shell, "run", until=warning, PORT="0", LLM_MODELS="gpt-4o-mini") as (running, lines):
        assert "  model     gpt-4o-mini; not tried: `parley doctor --call` does" in lines
        assert stop(running, signal.SIGINT) < 10
        assert running.stderr is not None
        assert "parley: stopping; running answers have 20 s" in running.stderr.read()


def test_a_new_link_can_be_made_while_it_runs(shell: Shell) -> None:
    with running_parley(shell, "run", until="Ctrl+C stops it", PORT="0") as (running, lines):
        port = find_base(lines).rsplit(":", 1)[1]
        result = shell.run("link", PORT=port)
        link = result.out.strip()

        assert re.search(r"opens the page as \S+ \(owner\), once", result.err)
        assert fetch(link)[0] == 200
        stop(running)


def test_new_settings_count_in_a_running_parley_that_the_wizard_starts_again(shell: Shell) -> None:
    # A fork of the tests could not begin again.
    cold = replace(shell, is_warm=False)
    file = shell.folder / ".env"
    with running_parley(cold, "run", until="Ctrl+C stops it", PORT="0", WORKERS="1") as (running, _):
        assert running.stderr is not None
        file.write_text("LLM_MODEL=small\n")
        running.send_signal(signal.SIGUSR1)
        while "goes on with the settings of before: .env" not in (line := running.stderr.readline()):
            assert line
        file.unlink()

        result = shell.run("setup", "--yes", "--guest-answers", "4", PORT="1")
        assert "It finishes the answers that it works on, and starts again" in result.out
        lines = read_until(running, "Ctrl+C stops it")
        ask_over_http(shell, find_base(lines), "hello", person="newcomer")
        assert json.loads(shell.says("user", "show", "test:newcomer", "--json"))["budget"] == 10_000
        # Only who is an owner now: no reason to start again.
        assert "knows its owners at once" in shell.says("setup", "--yes", "--owner", "discord:80351110224678912")
        assert stop(running) < 10
    file.unlink()
    assert shell.says("setup", "--yes", "--guest-answers", "8").endswith("Start it: parley run\n")
    file.unlink()


def test_a_taken_port_is_one_line(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = shell.run("run", PORT=str(port))

    assert (
        result.err
        == f"parley: PORT: 127.0.0.1:{port} can't be had (Address already in use); set PORT to another one.\n"
    )
    assert result.code == 2


def test_an_address_of_another_machine_is_one_line(shell: Shell) -> None:
    result = shell.run("run", HOST="no.such.host.invalid")

    assert result.err == "parley: HOST is wrong: this machine has no address no.such.host.invalid.\n"
    assert result.code == 2


def test_a_message_to_the_web_adapter_is_answered_by_another_worker_in_one_trace(shell: Shell) -> None:
    with opened_collector() as collector:
        traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with running_parley(shell, "adapter", "web", until="database", PORT="0", **traced) as (web, lines):
            with running_parley(shell, "worker", until="the worker is ready", **traced) as (worker, _):
                answer = ask_over_http(shell, find_base(lines), "what is 12*7?")
                assert "84" in str(answer["content"])
                assert stop(worker) < 10
            assert stop(web) < 10
    names = {span.name: span for span in collector.spans}
    assert names["invoke_agent"].parent_span_id == names["accept http"].span_id
    assert len({span.trace_id for span in collector.spans}) == 1


def test_it_starts_again_after_kill_9_with_its_memories(shell: Shell) -> None:
    with running_parley(shell, "run", until="Ctrl+C stops it", PORT="0") as (running, lines):
        ask_over_http(shell, find_base(lines), "remember that my dog is called Rex", "bob")
        running.kill()
        running.wait(PATIENCE)

    with running_parley(shell, "run", until="Ctrl+C stops it", PORT="0") as (running, lines):
        assert "Rex" in str(ask_over_http(shell, find_base(lines), "what do you know about my dog?", "bob")["content"])
        stop(running)


def test_a_chat_is_answered_when_the_worker_beside_it_was_killed(shell: Shell) -> None:
    with running_parley(shell, "worker", until="the worker is ready") as (worker, _):
        assert "84" in shell.run("chat", stdin="what is 12*7?\n").out
        worker.kill()
        worker.wait(PATIENCE)

    # Its heartbeat still looks alive for ten seconds; then the chat works for itself.
    assert "84" in shell.run("chat", stdin="what is 12*7?\n").out


def test_a_token_without_an_adapter_is_reported(shell: Shell) -> None:
    result = shell.run("adapter", "irc")

    assert "This Parley has no adapter for irc; there are:" in result.err
    assert result.code == 2
