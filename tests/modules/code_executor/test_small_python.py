"""Small code runs without files and libraries; whatever else is left to the sandbox."""

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from modules.code_executor.small_python import BINARY, NotSmall, is_small, run_small
from shared.sandbox.job import PROGRAM_FOLDER
from tests.shared.sandbox.test_attacks import WITHOUT_LANDLOCK


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("sum(range(101))", "5050\n"),
        ("print('a', 'b', sep='-')\nNone", "a-b\n"),
        ("x = 2**64\nx", "18446744073709551616\n"),
        ("import math\nround(math.sqrt(2), 3), 7 // -2, -7 % 3, 0.1 + 0.2", "(1.414, -4, 2, 0.30000000000000004)\n"),
        ("import json\njson.dumps({'ä': [1, None, True]})", """'{"\\\\u00e4": [1, null, true]}'\n"""),
        ("sorted({'b': 2, 'a': 1}.items())", "[('a', 1), ('b', 2)]\n"),
        ("from datetime import date\n(date(2026, 12, 24) - date(2026, 11, 22)).days", "32\n"),
        ("f'{1234567.891:,.2f} {7:>3} {255:x}'", "'1,234,567.89   7 ff'\n"),
    ],
)
async def test_small_code_says_what_python_says(code: str, output: str) -> None:
    assert is_small(code)
    assert (await run_small(code)).output == output


@pytest.mark.parametrize(
    "code",
    [
        "import numpy as np",
        "import json, os",
        "from os import path",
        "import math; import os",
        "open('a.csv').read()",
        "().__class__.__bases__[0].__subclasses__()",
        "exec('1')",
        "x = 1\n" * 10_000,
    ],
)
def test_what_needs_files_or_libraries_is_not_tried(code: str) -> None:
    assert not is_small(code)


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "x = 'a' * 10**9", "while True: print('x' * 1000)", "1 / 0", "class A: pass\nA()", "def"],
)
async def test_what_fails_or_never_ends_is_left_to_the_sandbox(code: str) -> None:
    with pytest.raises(NotSmall):
        await run_small(code)


async def test_its_process_has_no_rights_and_none_of_our_open_files(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(descriptor, True)
    running = asyncio.create_task(run_small("while True: pass"))
    try:
        async with asyncio.timeout(30):
            while (process := _find_interpreter()) is None:  # noqa: ASYNC110  # another process begins by itself
                await asyncio.sleep(0.01)
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
        open_files = [str(path.resolve()) for path in (process / "fd").iterdir()]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        os.close(descriptor)

    assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16)) == ("2", "1", 0)
    assert os.getuid() != 0 or "0" not in status["Uid"].split()
    assert str(tmp_path / "secret") not in open_files


def _find_interpreter() -> Path | None:
    """Return the process of the interpreter, when it has become that."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and (process / "cmdline").read_bytes().startswith(bytes(BINARY)):
                return process
    return None


def test_without_landlock_it_does_not_run() -> None:
    code = (
        "import asyncio, os; from modules.code_executor.small_python import NotSmall, run_small\n"
        "try: print(asyncio.run(run_small('6 * 7')), flush=True)\n"
        "except NotSmall as error: print('not run:', error, flush=True)\n"
        # As a worker ends: an interpreter that winds up while a thread of the library returns to it is aborted.
        "os._exit(0)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_LANDLOCK + code], cwd=PROGRAM_FOLDER, capture_output=True, text=True, check=True
    )

    assert ended.stdout.startswith("not run:")
