"""What the program's lock leaves out: it is not missed, and a setting that needs it says so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.source_tree import ROOT
from tests.test_packaging import CODE_LOCK, RUN_LOCK, pinned


def test_the_program_is_small_and_installs_nothing_twice() -> None:
    program, people_s = pinned(RUN_LOCK), pinned(CODE_LOCK)

    assert len(program) <= 142
    assert not {"numpy", "duckdb", "contourpy"} & program.keys()
    assert {"numpy", "duckdb", "contourpy"} <= people_s.keys()


# What each line of never-imported.txt is left out of is imported here, and none of the packages that come with it.
IMPORTS = """
import sys
LEFT_OUT = set({left_out!r})
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name in LEFT_OUT:
            raise ModuleNotFoundError(f"{{name}} is left out", name=name)
sys.meta_path.insert(0, Nothing())
import a2a.client, a2a.server.request_handlers, a2a.server.routes, httpx, mcp, mcp.client.streamable_http, mcp.server
import openai, typer, adapters.cli, adapters.a2a
from agent.llm.providers.library import import_litellm
litellm = import_litellm().litellm
print(litellm.token_counter("ollama/llama3", messages=[{{"role": "user", "content": "How many tokens?"}}]))
print(litellm.token_counter("command-r", messages=[{{"role": "user", "content": "How many tokens?"}}]))
"""


def test_what_the_lock_leaves_out_is_imported_by_nothing() -> None:
    lines = (ROOT / ".ci/never-imported.txt").read_text("utf-8").splitlines()
    names = {canonicalize_name(Requirement(line).name) for line in lines if line and not line.startswith("#")}
    modules = [
        {"google-api-core": "google.api_core", "pyjwt": "jwt"}.get(name, name.replace("-", "_")) for name in names
    ]
    text = IMPORTS.format(left_out=[*modules, "google.auth", "proto", "botocore", "hf_xet", "fsspec", "hpack"])

    ended = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)

    assert not names & pinned(RUN_LOCK).keys()
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("setting", "value", "package"),
    [
        ("LLM_MODELS", "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", "boto3"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318", "opentelemetry.sdk"),
        ("BUS_URL", "nats://127.0.0.1:4222", "nats"),
    ],
)
def test_a_setting_whose_packages_few_need_stops_the_start_with_the_remedy(
    setting: str, value: str, package: str, tmp_path: Path
) -> None:
    start = (
        "import sys\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {package!r}: sys.meta_path[1:] = []\n"
        "sys.meta_path.insert(0, Nothing())\n"
        "from adapters.cli import main\n"
        "sys.argv = ['parley', 'run']\n"
        "main()\n"
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PARLEY_HOME": str(tmp_path), setting: value}
    ended = subprocess.run(
        [sys.executable, "-c", start], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 2
    assert re.fullmatch(rf"parley: {setting} is wrong: .* not installed; run `make extras`.*\n", ended.stderr)
