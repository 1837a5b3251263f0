"""The first answer after a start: litellm, whose import takes seconds, is not needed for it or ready before it."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

from tests.adapters.cli.shell import Shell
from tests.adapters.cli.test_running import ask_over_http, fetch, find_base, running_parley
from tests.standins.openai_api import Answer, OpenAIStub

# What Python runs at its start; the import of litellm imports its submodules.
WITHOUT_LITELLM = """
import sys

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("litellm."):
            raise ImportError("litellm is not needed here")

sys.meta_path.insert(0, Refusal())
"""
# The import goes on when a file says so.
SLOW_LITELLM = """
import sys, time
from pathlib import Path

class Delay:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("litellm."):
            Path("importing").touch()
            while not Path("go on").exists():
                time.sleep(0.01)

sys.meta_path.insert(0, Delay())
"""


def set_up(shell: Shell, program: str) -> tuple[Shell, str]:
    """Have Python run this program at its start; return a shell that starts it anew, and the `PYTHONPATH` for that."""
    folder = shell.folder / "site"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(program)
    return replace(shell, is_warm=False), str(folder)


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


async def test_a_server_with_openais_protocol_is_asked_without_litellm(shell: Shell, model: OpenAIStub) -> None:
    model.play([Answer("Good morning.")])
    shell, folder = set_up(shell, WITHOUT_LITELLM)
    settings = {"PYTHONPATH": folder, "OPENAI_BASE_URL": model.base_url}

    def ask() -> object:
        with running_parley(shell, "run", until="Ctrl+C stops it", PORT="0", LLM_MODELS="small", **settings) as (
            _,
            lines,
        ):
            return ask_over_http(shell, find_base(lines), "hello")["content"]

    assert await asyncio.to_thread(ask) == "Good morning."
    assert [request.body["model"] for request in model.requests] == ["small"]


async def test_no_turn_begins_before_litellm_is_imported_where_it_is_needed(shell: Shell, model: OpenAIStub) -> None:
    model.play([Answer("Good morning.")])
    shell, folder = set_up(shell, SLOW_LITELLM)
    # One worker: each would import it for itself.
    settings = {"PYTHONPATH": folder, "HOSTED_VLLM_API_BASE": model.base_url, "WORKERS": "1"}
    turns = "SELECT count(*) FROM turns"
    statement = "SELECT count(*) FROM inbox WHERE turn_id IS NULL AND content = 'Is anybody there?'"

    async def count(query: str) -> int:
        return int(await asyncio.to_thread(shell.says, "psql", "-At", "-c", query))

    before = await count(turns)
    starting = running_parley(
        shell, "run", until="Ctrl+C stops it", PORT="0", LLM_MODELS="hosted_vllm/small", **settings
    )
    _, lines = await asyncio.to_thread(starting.__enter__)
    try:
        await asyncio.to_thread(wait_for, shell.folder / "importing")
        asking = asyncio.create_task(asyncio.to_thread(ask_over_http, shell, find_base(lines), "Is anybody there?"))
        while await count(statement) == 0:
            assert not asking.done(), await asking
            # Each look is a program of its own.
            await asyncio.sleep(0.2)
        # The page serves meanwhile.
        assert (await asyncio.to_thread(fetch, f"{find_base(lines)}/healthz"))[0] == 200
        assert await count(turns) == before
        (shell.folder / "go on").touch()
        assert (await asking)["content"] == "Good morning."
    finally:
        (shell.folder / "go on").touch()
        await asyncio.to_thread(starting.__exit__, None, None, None)
