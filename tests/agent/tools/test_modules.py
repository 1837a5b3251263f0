"""Which modules there are: found by walking the folder, and off when they fail to load."""

import json
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest
import tiktoken

from agent.tools.modules import discover
from shared.permissions import Permission
from shared.settings import Settings
from tests.agent.tools.test_toolbox import LIMIT, WIRE_NAME, call, scope


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[Path]:
    """An empty folder of modules that can be imported."""
    folder = tmp_path / f"modules_{uuid4().hex}"
    folder.mkdir()
    sys.path.insert(0, str(tmp_path))
    yield folder
    sys.path.remove(str(tmp_path))


def write(modules: Path, name: str, *lines: str) -> None:
    (modules / name).mkdir()
    head = ("from shared.permissions import Permission", "from shared.tools import ToolContext, tool", "")
    (modules / name / "__init__.py").write_text("\n".join((*head, *lines)), "utf-8")


GOOD = (
    "@tool(requires=Permission.GUEST)",
    "async def say(context: ToolContext, word: str) -> str:",
    '    """Say a word."""',
    "    return word",
)


def test_modules_are_found_by_walking_the_folder(modules: Path) -> None:
    write(modules, "speech", *GOOD)
    (modules / "notes.txt").write_text("no module")
    (modules / "empty").mkdir()

    box = discover(LIMIT, modules)

    assert [each.name for each in box.tools] == ["speech.say"]
    assert box.failures == {}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("import no_such_library",), "ModuleNotFoundError: No module named 'no_such_library'"),
        (("this is no Python",), "SyntaxError"),
        (("raise SystemError('out of order')",), "SystemError: out of order"),
        ((*GOOD[:1], "async def say(context: ToolContext, word) -> str:", *GOOD[2:]), "broken.say: word has no type"),
        ((*GOOD[:2], "    return word"), "broken.say: the docstring tells the model what the tool is for"),
        ((*GOOD[:1], f"async def {'s' * 60}(context: ToolContext) -> str:", '    "x"', "    return ''"), "at most 64"),
        (
            (*GOOD[:1], "async def say(context: ToolContext, word: object()) -> str:", *GOOD[2:]),
            "SchemaGenerationError",
        ),
    ],
    ids=["import", "syntax", "raises", "no type", "no docstring", "long name", "no schema"],
)
async def test_a_module_that_fails_to_load_is_off_and_the_rest_serves(
    modules: Path, lines: tuple[str, ...], reason: str
) -> None:
    write(modules, "broken", *lines)
    write(modules, "speech", *GOOD)

    box = discover(LIMIT, modules)

    assert [each.name for each in box.tools] == ["speech.say"]
    assert reason in box.failures["broken"]
    assert (await call("speech__say", {"word": "hello"}, box=box)).content == '"hello"'


def test_every_tool_of_the_house_has_a_name_that_providers_take() -> None:
    box = discover(8000)

    assert box.failures == {}
    assert len(box.tools) >= 9
    assert all(WIRE_NAME.fullmatch(each.wire_name) for each in box.tools)


@pytest.fixture
def encoding() -> Iterator[tiktoken.Encoding]:
    """A real tokenizer, from the file that comes with litellm."""
    found = find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(found.origin).parent / "litellm_core_utils" / "tokenizers")
    yield tiktoken.get_encoding("cl100k_base")
    del os.environ["TIKTOKEN_CACHE_DIR"]


def test_the_tool_list_of_a_guest_is_small(encoding: tiktoken.Encoding) -> None:
    box = discover(8000)
    modules = frozenset(Settings().default_guest_modules)

    offer = box.offered_to(scope(Permission.GUEST, modules))

    # As it goes over the wire; providers make it shorter still.
    tokens = len(encoding.encode(json.dumps(offer.schemas, separators=(",", ":"))))
    assert {each.module for each in offer.tools} <= modules
    assert tokens <= 800
    assert tokens <= offer.tokens
