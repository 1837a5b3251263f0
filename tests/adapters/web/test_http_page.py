"""The commands of docs/http.md, run as they stand there."""

import asyncio
import re
import shlex
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.adapters.web.conftest import TOKEN, Site
from tests.support.documents import document

# From `curl` at the beginning of an indented line to the end of the last line that a backslash continues.
COMMANDS = re.findall(r"^    (curl (?:.*\\\n)*.*)$", document("docs/http.md").text, re.MULTILINE)


async def test_the_commands_of_the_page_work(site: Site, tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / ".parley").mkdir()
    (tmp_path / ".parley" / "api_token").write_text(TOKEN, "utf-8")
    assert len(COMMANDS) >= 3
    for command in COMMANDS:
        with subtests.test(command):
            shell = (
                "bash",
                "-c",
                f"set -o pipefail; {command.replace('http://127.0.0.1:8080', shlex.quote(site.url))}",
            )
            process = await asyncio.create_subprocess_exec(*shell, cwd=tmp_path, stdout=PIPE, stderr=PIPE)
            output, complaints = await process.communicate()

            assert process.returncode == 0, complaints
            assert b'"error":{' not in output
    assert (tmp_path / "parley.json").stat().st_size > 10_000
