"""Documentation: examples run, links have targets, tables agree with the code."""

import ast
import asyncio
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path

import pytest

from adapters.cli.platforms import list_setting_names
from agent.llm.scripted.model import ERRORS, ScriptedReply
from agent.people.participants import ResolvedPersona
from agent.tools.calls import PendingCall
from agent.tools.modules import ModuleTools, discover
from agent.tools.offer import Scope
from agent.tools.toolbox import Toolbox
from shared.db.database import Address
from shared.messages import Caller, Permission, Place
from shared.settings import SETTING_NAMES, Settings
from shared.tools import Tool, ToolContext
from tests.standins.openai_api import OpenAIStub
from tests.support.documents import Document, document, documents
from tests.support.parley import open_parley
from tests.support.source_tree import ROOT
from tests.support.tool_calls import bare_context

PLACE = Place("test", None, "table", is_direct=True)
MOST_TERMS = 12
LONGEST_DECISION = 40
LARGEST_PICTURE = 60_000
TO_MAKE = ("modules/dice", "adapters/mailbox")


@pytest.fixture
def dice(tmp_path: Path) -> ModuleTools:
    """The module of docs/modules.md, in a folder of its own."""
    (tmp_path / "dice").mkdir()
    (tmp_path / "dice" / "__init__.py").write_text(document("docs/modules.md").blocks("python")[0].text, "utf-8")
    return discover(tmp_path)


def guest(module: str) -> Scope:
    persona = ResolvedPersona(None, "Parley", "", frozenset({module}), None, 1000, 10)
    return Scope(Caller(1, Permission.GUEST, "Ann"), persona, PLACE, {})


async def test_the_module_of_the_page_loads_is_offered_and_runs(dice: ModuleTools) -> None:
    caller, box = guest("dice"), Toolbox((dice,), 8000)
    offer = box.offered_to(caller)

    assert dice.failures == {}
    assert [schema["function"]["name"] for schema in offer.schemas] == ["dice__roll"]
    rolled = await box.call(PendingCall("call-1", "dice__roll", {"count": 3}, caller, offer), bare_context("dice"))
    assert re.fullmatch(r'\{"rolled": \[[1-6], [1-6], [1-6]\]\}', rolled.content)
    result = await box.call(PendingCall("call-2", "dice__roll", {"sides": 1}, caller, offer), bare_context("dice"))
    assert "greater than or equal to 2" in result.content


def test_the_page_on_modules_names_every_argument_and_field() -> None:
    page = document("docs/modules.md").text
    arguments = [name for name in Tool.__struct_fields__ if name not in {"run", "module"}]
    names = set(ToolContext.__struct_fields__) - {"module", "database", "app_settings", "models", "credentials"}

    assert [name for name in arguments if f"| `{name}` |" not in page] == []
    assert [name for name in names if not re.search(rf"`(context\.)?{name}`", page)] == []


async def parley(folder: Path, *arguments: str, stderr: int = STDOUT, **variables: str) -> Process:
    """Start the program in an empty folder with these settings; without `stderr` it goes to stdout."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {*SETTING_NAMES, *list_setting_names()}
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "adapters.cli", *arguments),
        env={**environment, "PYTHONPATH": str(ROOT), "PARLEY_HOME": str(folder / ".parley"), **variables},
        cwd=folder,
        stdin=PIPE,
        stdout=PIPE,
        stderr=stderr,
    )


async def test_the_chat_in_the_readme_is_what_the_terminal_prints(address: Address, tmp_path: Path) -> None:
    questions, answers, tools = [block.text for block in document("README.md").blocks("text")][1:4]
    process = await parley(tmp_path, "chat", stderr=PIPE, DATABASE_URL=address.libpq(as_owner=True))

    output, on_stderr = await process.communicate(questions.encode())

    assert output.decode() == answers
    assert on_stderr.decode() == tools


async def test_the_start_in_the_readme_is_what_the_program_prints(tmp_path: Path) -> None:
    lines = [normal(line) for line in document("README.md").blocks("text")[0].text.splitlines()]
    process = await parley(tmp_path, "run", PORT="0")
    assert process.stdout is not None

    output: list[str] = []
    try:
        async with asyncio.timeout(60):
            while lines[-1] not in output and (line := (await process.stdout.readline()).decode()):
                output.append(normal(line.rstrip()))
            process.send_signal(signal.SIGINT)
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()

    # The program also prints how to set a model, which the README explains in its text.
    assert [line for line in output if not line.strip().startswith("For a real model")] == lines


def normal(line: str) -> str:
    """Return the line without the parts that differ at each start."""
    line = re.sub(r"as \S+ \(owner\)", "as … (owner)", re.sub(r"workers +\d+", "workers …", line))
    return re.sub(r"key=\S+", "key=…", re.sub(r"\d+\.\d s$", "… s", re.sub(r"127.0.0.1:\d+", "127.0.0.1:…", line)))


def talks() -> list[tuple[str, str]]:
    """Return the lists of the page on scripted answers, each with the conversation that follows it."""
    page = document("docs/mock.md")
    return list(zip(*([block.text for block in page.blocks(kind)] for kind in ("json", "text")), strict=True))


@pytest.mark.parametrize(("script", "talk"), talks(), ids=range(len(talks())))
async def test_the_examples_on_the_page_on_scripted_answers_run_as_written(
    script: str, talk: str, settings: Settings, address: Address, model: OpenAIStub
) -> None:
    scripted = settings.model_copy(update={"debug_mock_responses": script, "default_guest_token_budget": 10**9})
    output: list[str] = []

    async with open_parley(scripted, address, model) as parley:
        for line in (line for line in talk.splitlines() if line.startswith("> ")):
            reply = await parley.ask(line.removeprefix("> "), wants_stream=True)
            output += [line, *(f"tool: {call.tool} {json.dumps(call.args)}" for call in reply.tool_calls_made)]
            output.append(reply.content)

    assert output == talk.splitlines()


def test_the_page_on_scripted_answers_names_every_field_and_error() -> None:
    page = document("docs/mock.md").text

    assert [
        name for name in (*ScriptedReply.model_fields, *ERRORS) if f"`{name}`" not in page and f'"{name}"' not in page
    ] == []


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_links_lead_to_existing_files_and_headings(page: Document) -> None:
    broken = [link for link in page.links() if "://" not in link and not leads_somewhere(page, link)]

    assert broken == []


def leads_somewhere(page: Document, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = Document((page.path.parent / name).resolve()) if name else page
    if not target.path.is_file():
        return False
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in target.headings()}
    return not anchor or anchor in anchors


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Document) -> None:
    paths = re.findall(r"`((?:adapters|agent|docs|migrations|modules|shared|tests)/[\w./-]+)`", page.prose)

    # The reader creates these folders.
    assert [name for name in paths if not name.startswith(TO_MAKE) and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_python_on_a_page_parses_and_its_imports_exist(page: Document) -> None:
    for block in page.blocks("python"):
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("adapters.mailbox"):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), node.module


def test_every_page_of_the_docs_can_be_reached_from_the_first_one() -> None:
    start = document("docs/index.md")
    linked = {(start.path.parent / link.partition("#")[0]).resolve() for link in start.links()}

    pages = {page.path for page in documents() if page.path.parent != ROOT} - {start.path}
    assert pages - linked == set()


def test_the_page_on_how_it_works_names_every_package() -> None:
    page = document("docs/architecture.md").text
    packages = {
        init.parent.relative_to(ROOT)
        for top in ("adapters", "agent", "shared")
        for init in ROOT.glob(f"{top}/*/__init__.py")
    }

    assert [name for name in sorted(map(str, packages)) if f"`{name}`" not in page] == []


def test_the_site_has_every_page_and_no_broken_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)

    assert result.returncode == 0, result.stderr
    assert (tmp_path / "reference/tables/index.html").is_file()


def test_the_pictures_are_small_and_each_is_shown() -> None:
    shown = {name for page in documents() for name in re.findall(r"!\[[^\]]+\]\((?:docs/)?images/([^)]+)\)", page.text)}
    pictures = {path.name: path.stat().st_size for path in (ROOT / "docs/images").iterdir()}

    assert set(pictures) == shown
    assert {name: size for name, size in pictures.items() if size > LARGEST_PICTURE} == {}


def test_the_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    prose = "\n".join(page.text for page in documents())

    assert set(re.findall(r"(?:`|^ {4})make ([a-z]+)", prose, re.MULTILINE)) - targets == set()


def test_decisions_are_numbered_and_short_with_context_decision_and_price() -> None:
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))

    assert len({path.name[:4] for path in decisions}) == len(decisions)
    for path in decisions:
        text = path.read_text("utf-8")
        assert text.startswith(f"# {int(path.name[:4])}. "), path.name
        assert len(text.splitlines()) <= LONGEST_DECISION, path.name
        assert all(f"**{part}.**" in text for part in ("Context", "Decision", "Price")), path.name


def test_the_glossary_is_short_and_has_the_words_of_the_main_path() -> None:
    terms = [row[0] for row in glossary()]

    assert {"place", "journal", "offer", "reservation", "persona"} <= set(terms)
    assert len(terms) == len(set(terms)) <= MOST_TERMS


def glossary() -> list[list[str]]:
    lines = [line for line in document("docs/glossary.md").text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
