"""Several worker processes of one `parley run`: they share the work, are started again, and end together."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from shared.db.embedded.server import start_postgres
from tests.adapters.cli.shell import Shell
from tests.adapters.cli.test_running import ask_over_http, fetch, find_base, running_parley
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body
from tests.support.eventually import PATIENCE, eventually
from tests.support.processes import is_alive, list_children, wait_until_gone

# In the database: each look from outside would be a program of its own.
UNTIL_ANSWERED = """
DO $$ BEGIN
    WHILE EXISTS (SELECT FROM inbox WHERE status IN ('waiting', 'claimed')) LOOP PERFORM pg_sleep(0.05); END LOOP;
END $$
"""


class Held:
    """A model that answers only when it is told to."""

    def __init__(self) -> None:
        self.requests = 0
        self.changed, self.is_open = asyncio.Event(), asyncio.Event()

    async def answer(self, _body: Body, _number: int) -> Answer:
        self.requests += 1
        self.changed.set()
        await self.is_open.wait()
        return Answer("Good morning.")

    async def until(self, requests: int) -> None:
        """Wait for so many requests."""
        while self.requests < requests:
            await self.changed.wait()
            self.changed.clear()

    def hold(self) -> None:
        """Answer what comes from now on only when it is told to again."""
        self.requests, self.is_open = 0, asyncio.Event()


@dataclass(frozen=True)
class Run:
    """A `parley run` with two workers, each of which has room for one turn."""

    shell: Shell
    running: "Popen[str]"
    pid: int
    lines: list[str]
    model: Held
    log: Path

    @property
    def base(self) -> str:
        return find_base(self.lines)

    async def begin(self) -> "asyncio.Future[list[str | BaseException]]":
        """Ask as two people and return once both turns run, which is when both workers work."""
        self.model.hold()
        asking = asyncio.gather(*map(self.ask, ("ann", "bob")), return_exceptions=True)
        await self.model.until(2)
        return asking

    async def ask(self, person: str) -> str:
        answer = await asyncio.to_thread(ask_over_http, self.shell, self.base, "hello", person)
        return str(answer["content"])

    async def read_log(self, is_enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Return the lines of the log as soon as they are enough."""
        while True:
            lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
            if is_enough(lines):
                return lines
            await asyncio.sleep(0.02)

    async def until_stopping(self) -> None:
        """Wait until the log says that it stops."""
        while "stopping" not in self.log.read_text():  # noqa: ASYNC110  # another process writes it
            await asyncio.sleep(0.02)

    async def until_ready(self, workers: int = 2) -> None:
        """Wait until the page says that so many workers run."""
        expected = {"status": "ready", "workers": workers, "configured_workers": 2}

        async def is_ready() -> bool:
            try:
                return bool(json.loads((await asyncio.to_thread(fetch, f"{self.base}/readyz"))[1]) == expected)
            except OSError:
                # Nobody listens just now.
                return False

        await eventually(is_ready)


@asynccontextmanager
async def opened_run(shell: Shell, model: OpenAIStub) -> AsyncIterator[Run]:
    """Start `parley run` and wait for both workers."""
    gate = Held()
    model.play(gate.answer)
    log = shell.folder / "log"
    # A file, because nobody reads a pipe meanwhile.
    with log.open("w") as file:
        settings = {"OPENAI_BASE_URL": model.base_url, "LLM_MODELS": "small", "MAX_TURNS": "1", "LOG_FORMAT": "json"}
        logged, others = replace(shell, errors=file.fileno()), shell.list_forks()
        starting = running_parley(logged, "run", until="Ctrl+C stops it", PORT="0", WORKERS="2", **settings)
        running, lines = await asyncio.to_thread(starting.__enter__)
        try:
            (pid,) = shell.list_forks() - others
            run = Run(shell, running, pid, lines, gate, log)
            await run.until_ready()
            yield run
        finally:
            gate.is_open.set()
            await asyncio.to_thread(starting.__exit__, None, None, None)


def find_event(lines: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == event]


async def test_turns_run_in_both_processes_and_what_a_killed_one_began_is_ended_by_others(
    shell: Shell, model: OpenAIStub
) -> None:
    async with opened_run(shell, model) as run:
        assert "  workers   2" in run.lines
        asking = await run.begin()
        run.model.is_open.set()
        assert await asking == ["Good morning."] * 2
        lines = await run.read_log(lambda lines: len(find_event(lines, "turn_finished")) == 2)
        assert {line["worker"] for line in find_event(lines, "turn_finished")} == {1, 2}
        # All lines of processes that work say which one it is.
        assert {line.get("worker") for line in lines} == {1, 2}

        first, second = list_children(run.pid)
        asking = await run.begin()
        os.kill(second, signal.SIGKILL)
        run.model.is_open.set()
        assert await asking == ["Good morning."] * 2
        await run.until_ready()
        lines = await run.read_log(lambda lines: len(find_event(lines, "worker_ready")) == 2)
        (end,) = find_event(lines, "worker_ended")
        assert (end["worker"], end["pid"], end["cause"], end["restart_seconds"]) == (2, second, "SIGKILL", 1.0)
        assert {line["worker"] for line in find_event(lines, "worker_ready")} == {2}
        again, third = list_children(run.pid)
        assert (again, third != second, is_alive(third)) == (first, True, True)
        assert run.shell.says("doctor", "--json").count('"2 run"') == 1

        # The page comes back on its port, and both messages whose callers have lost their connections are answered.
        asking = await run.begin()
        os.kill(first, signal.SIGKILL)
        run.model.is_open.set()
        assert all(isinstance(outcome, OSError) for outcome in await asking)
        await run.until_ready()
        assert await run.ask("cid") == "Good morning."
        assert list_children(run.pid)[0] == third
        await asyncio.to_thread(run.shell.says, "psql", "-c", UNTIL_ANSWERED)
        assert is_alive(run.pid)


async def test_kill_9_of_the_program_leaves_no_process(fresh: Shell, model: OpenAIStub) -> None:
    async with opened_run(fresh, model) as run:
        pids = list_children(run.pid)
        assert len(pids) == 2
        asking = asyncio.create_task(run.ask("ann"))
        await run.model.until(1)
        os.kill(run.pid, signal.SIGKILL)
        await asyncio.to_thread(wait_until_gone, [run.pid, *pids])
        await asyncio.gather(asking, return_exceptions=True)


async def test_ctrl_c_lets_turns_end_and_a_second_one_does_not(fresh: Shell, model: OpenAIStub) -> None:
    async with opened_run(fresh, model) as run:
        pids = list_children(run.pid)
        # In both workers: one that has nothing to do ends at once.
        asking = await run.begin()
        # As a terminal does: to all processes.
        for pid in (run.pid, *pids):
            os.kill(pid, signal.SIGINT)
        await run.until_stopping()
        # And as systemd does: to all processes again.
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        assert all(map(is_alive, pids))
        run.model.is_open.set()
        assert await asking == ["Good morning."] * 2
        assert await asyncio.to_thread(run.running.wait, 30) == 0
        assert run.log.read_text().count("parley: stopping; running answers have 20 s") == 1
        assert not any(map(is_alive, pids))

    async with opened_run(fresh, model) as run:
        pids = list_children(run.pid)
        question = asyncio.create_task(run.ask("ann"))
        await run.model.until(1)
        run.running.send_signal(signal.SIGINT)
        await run.until_stopping()
        run.running.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(run.running.wait, 30) == 128 + signal.SIGINT
        assert not any(map(is_alive, pids))
        await asyncio.gather(question, return_exceptions=True)


def test_workers_alone_are_as_many_as_the_settings_say(shell: Shell) -> None:
    with running_parley(shell, "worker", until="is ready", WORKERS="2", LOG_FORMAT="json") as (running, lines):
        assert lines[-1].startswith("the first of 2 workers is ready; answers come from")
        assert running.stderr is not None
        line = next(line for line in running.stderr if "worker_ready" in line)
        assert json.loads(line)["worker"] == 2
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0


@pytest.mark.parametrize(("command", "count"), [("run", "0"), ("worker", "1.5")])
def test_a_wrong_number_of_workers_is_one_line(shell: Shell, command: str, count: str) -> None:
    result = shell.run(command, WORKERS=count)

    assert result.code == 2
    assert re.fullmatch(
        r"parley: WORKERS is wrong: [^.\n]+\. Correct it in the environment or in \.env\.\n", result.err
    )


def test_what_stops_a_worker_at_its_start_is_one_line_for_all(shell: Shell) -> None:
    result = shell.run("worker", WORKERS="2", DATABASE_URL="mysql://localhost/parley")

    assert result.err == "parley: DATABASE_URL names mysql; Parley needs postgresql:// (15 or newer).\n"
    assert result.code == 2


def test_the_embedded_server_takes_the_connections_of_all_workers(fresh: Shell) -> None:
    fresh.says("migrate", WORKERS="20")
    with fresh.start("psql", "-At", WORKERS="20") as psql:
        out, _ = psql.communicate("SHOW max_connections")
    assert out == "136\n"


def test_a_server_with_too_few_connections_is_named_at_the_start(fresh: Shell) -> None:
    start_postgres(fresh.home, connections=27)
    with running_parley(fresh, "run", until="Ctrl+C stops it", PORT="0", WORKERS="2") as (_, lines):
        (line,) = (line for line in lines if "max_connections" in line)

    assert line == (
        "            2 workers open up to 12 connections, 13 are for all else, and the server takes 24: set "
        "max_connections to 28 or more there, or WORKERS to fewer."
    )
    assert f"warn  database  {line.strip()}" in fresh.run("doctor", WORKERS="2").out
