"""Finding modules: where they come from, what they are named, and what happens when one fails to load."""

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken

from agent.agents.delegation import agents
from agent.tools.modules import FoundModules, discover, find_modules
from agent.tools.toolbox import Toolbox
from shared.messages import Permission
from shared.settings import Settings
from tests.agent.tools.test_toolbox import WIRE_NAME, call, scope


def write(folder: Path, name: str, *lines: str) -> None:
    (folder / name).mkdir()
    head = ("from shared.messages import Permission", "from shared.tools import ToolContext, tool", "")
    (folder / name / "__init__.py").write_text("\n".join((*head, *lines)), "utf-8")


def reason(modules: FoundModules, name: str) -> str:
    (failure,) = [candidate for candidate in modules.failed if candidate.name == name]
    return failure.reason


GOOD = (
    "@tool(requires=Permission.GUEST)",
    "async def say(context: ToolContext, word: str) -> str:",
    '    """Say a word."""',
    "    return word",
)


def test_modules_are_found_in_the_folder_that_the_setting_names(tmp_path: Path) -> None:
    write(tmp_path, "speech", *GOOD, "INSTRUCTIONS = ' Speak up. '")
    (tmp_path / "notes.txt").write_text("no module")
    (tmp_path / "empty").mkdir()

    modules = find_modules(tmp_path)

    assert modules.failed == ()
    assert {module.source for module in modules.loaded[:-1]} == {"built in"}
    speech = modules.loaded[-1]
    assert (speech.name, speech.source, speech.instructions) == ("speech", str(tmp_path), "Speak up.")
    assert [tool.name for tool in speech.tools] == ["speech.say"]


def test_a_module_may_have_several_files_and_offers_only_its_own_tools(tmp_path: Path) -> None:
    write(tmp_path, "speech", "from modules.speech.words import WORD", "from modules.dialogue import converse", *GOOD)
    (tmp_path / "speech" / "words.py").write_text("WORD = 'hello'\n")

    modules = find_modules(tmp_path)

    assert modules.failed == ()
    assert [tool.name for tool in modules.loaded[-1].tools] == ["speech.say"]


def test_of_two_modules_with_one_name_the_first_counts(tmp_path: Path) -> None:
    write(tmp_path, "calculator", *GOOD)

    modules = find_modules(tmp_path)

    assert reason(modules, "calculator") == (
        "ValueError: there is already a module calculator (built in); rename one of them"
    )
    assert [module.source for module in modules.loaded if module.name == "calculator"] == ["built in"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("my-dice", "letters, digits and _"),
        ("7up", "begins with a letter"),
        ("w\u00fcrfel", "letters, digits and _"),
        # Its tool `open` would be named as the tool `admin__open` of the module `shop`, and providers refuse both.
        ("shop__admin", "single _"),
        ("shop_", "single _"),
        (agents.MODULE, "the program itself uses the name agents"),
    ],
)
def test_a_module_whose_name_does_not_fit_is_off(tmp_path: Path, name: str, problem: str) -> None:
    write(tmp_path, name, *GOOD)

    assert problem in reason(find_modules(tmp_path), name)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("import no_such_library",), "ModuleNotFoundError: No module named 'no_such_library'"),
        (("this is no Python",), "SyntaxError"),
        (("raise SystemError('out of order')",), "SystemError: out of order"),
        (("raise SystemExit('good bye')",), "SystemExit: good bye"),
        ((*GOOD[:1], "async def say(context: ToolContext, word) -> str:", *GOOD[2:]), "broken.say: word has no type"),
        ((*GOOD[:2], "    return word"), "broken.say: the docstring tells the model what the tool is for"),
        ((*GOOD[:1], f"async def {'s' * 60}(context: ToolContext) -> str:", '    "x"', "    return ''"), "at most 64"),
        (
            (*GOOD[:1], "async def say(context: ToolContext, word: object()) -> str:", *GOOD[2:]),
            "SchemaGenerationError",
        ),
    ],
    ids=["import", "syntax", "raises", "exits", "no type", "no docstring", "long name", "no schema"],
)
async def test_a_module_that_fails_to_load_is_off_and_the_rest_serves(
    tmp_path: Path, lines: tuple[str, ...], problem: str
) -> None:
    write(tmp_path, "broken", *lines)
    write(tmp_path, "speech", *GOOD)

    box = discover(tmp_path)

    assert problem in box.failures["broken"]
    assert {tool.module for tool in box.tools.values()} >= {"calculator", "speech"}
    assert (await call("speech__say", {"word": "hello"}, box=Toolbox((box,), 8000))).content == '"hello"'


async def test_a_module_that_lacked_something_when_it_was_loaded_is_loaded_later(tmp_path: Path) -> None:
    path = tmp_path / "needed"
    write(tmp_path, "late", f"open({str(path)!r}).close()", *GOOD)
    write(tmp_path, "broken", "import nothing_of_this_name")
    box = discover(tmp_path)
    toolbox = Toolbox((box,), 8000)
    modules = frozenset({"late"})
    assert box.failures.keys() == {"late", "broken"}
    assert not toolbox.offered_to(scope(Permission.GUEST, modules)).schemas

    await box.try_again()
    path.touch()
    await box.try_again()

    assert box.failures.keys() == {"broken"}
    assert len(toolbox.offered_to(scope(Permission.GUEST, modules)).schemas) == 1
    assert (await call("late__say", {"word": "hello"}, box=toolbox)).content == '"hello"'


def test_every_tool_has_a_name_that_providers_accept() -> None:
    box = discover()

    assert box.failures == {}
    assert len(box.tools) >= 9
    assert all(WIRE_NAME.fullmatch(tool.wire_name) for tool in box.tools.values())


@pytest.fixture
def encoding() -> Iterator[tiktoken.Encoding]:
    """A real tokenizer, from the file that comes with litellm."""
    spec = find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(spec.origin).parent / "litellm_core_utils" / "tokenizers")
    yield tiktoken.get_encoding("cl100k_base")
    del os.environ["TIKTOKEN_CACHE_DIR"]


def test_the_tool_list_of_a_guest_is_small(encoding: tiktoken.Encoding) -> None:
    box = discover()
    modules = frozenset(Settings().default_guest_modules)

    offer = Toolbox((box,), 8000).offered_to(scope(Permission.GUEST, modules))

    # As it goes over the wire; providers make it shorter still.
    tokens = len(encoding.encode(json.dumps(offer.schemas, separators=(",", ":"))))
    assert {tool.module for tool in offer.tools} <= modules
    assert tokens <= 800
    assert tokens <= offer.tokens
