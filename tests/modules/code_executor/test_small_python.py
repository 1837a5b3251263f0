"""Small code runs without files and libraries; whatever else is left to the sandbox."""

import pytest

from modules.code_executor.small_python import NotSmall, is_small, run_small


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
