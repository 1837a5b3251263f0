"""Code that people have run: its output, its files in the reply, what it finds again, and who may."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from agent.tools.modules import find_modules
from modules import code_executor
from shared.db.database import Address, Database
from shared.errors import NotFound, ToolError
from shared.messages import Permission
from shared.settings import Settings
from shared.tools import ToolContext
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, open_parley
from tests.support.tool_calls import call, variables
from tests.support.tool_context import make_tool_context

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()"
ANALYSIS = """
import pandas as pd, sys
rate = 2
def double(x): return x * rate
frame = sys._getframe()
table = pd.read_csv('sales.csv').groupby('region').sum()
table.to_csv('sums.csv')
int(table.amount['EU'])
"""
HOSTILE_FILES = """
import os, pathlib
os.symlink('/etc/passwd', 'passwords.txt')
os.symlink('/etc', 'folder')
pathlib.Path('deep/er').mkdir(parents=True)
pathlib.Path('deep/er/good.txt').write_text('good')
pathlib.Path('.hidden').write_text('x')
print('😀' * 20_000)
raise SystemExit(3)
"""
CSV = b"region,amount\nEU,100\nUS,50\nEU,25\n"
CONVERSATIONS = """
INSERT INTO conversations (platform, platform_channel_id, is_direct)
VALUES ('discord', 'dm-1', true), ('discord', 'dm-2', true)
"""


@pytest.fixture
async def parley(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Parley]:
    async with open_parley(settings, address, model) as parley:
        await parley.sql("INSERT INTO personas (name, system_prompt, is_default) VALUES ('P', 'Be kind.', true)")
        await parley.ask("hello")
        await parley.sql("UPDATE users SET permission_level = 'user', token_budget_monthly = NULL")
        yield parley


def runs(code: str, **more: Any) -> Answer:
    return Answer(tool_calls=[("code_executor__run_python", {"code": code, **more})])


def tools_of(model: OpenAIStub) -> set[str]:
    names = (tool["function"]["name"] for tool in model.requests[-1].body.get("tools", ()))
    return {name for name in names if name.startswith("code_executor__")}


async def test_a_plot_comes_with_the_reply(parley: Parley, model: OpenAIStub) -> None:
    model.play([runs(PLOT), Answer("Here it is.")])

    reply = await parley.ask("plot the squares")

    assert (reply.content, [file.filename for file in reply.files]) == ("Here it is.", ["figure_1.png"])
    assert reply.tool_calls_made[0].result["output"] == ""
    key = await parley.value("SELECT minio_key FROM file_records")
    assert (await parley.app.files.storage.head(key)).startswith(b"\x89PNG")


async def test_guests_run_nothing_and_commands_are_for_the_owner(parley: Parley, model: OpenAIStub) -> None:
    tools = {f"code_executor__{name}" for name in ("run_python", "load_file", "list_files")}
    await parley.sql("UPDATE personas SET allowed_modules = '[\"code_executor\"]'")
    for level, theirs in (("guest", set()), ("user", tools), ("owner", tools)):
        await parley.sql("UPDATE users SET permission_level = :level, token_budget_monthly = NULL", level=level)
        model.play([runs("1 + 1"), Answer("Done.")])
        reply = await parley.ask("add")
        assert tools_of(model) == theirs
        assert (reply.tool_calls_made[0].result == {"output": "2"}) == (level != "guest")


async def test_a_turn_that_is_stopped_ends_its_run(parley: Parley, model: OpenAIStub) -> None:
    mark = uuid4().hex
    model.play([runs(f"open('{mark}', 'w')\nimport time\ntime.sleep(600)"), Answer("Too late.")])
    accepted = await parley.accept("run it")
    folder = Path(tempfile.gettempdir())
    async with asyncio.timeout(30):
        # Another process writes it.
        while not (paths := list(folder.glob(f"parley-code-*/files/{mark}"))):  # noqa: ASYNC110, ASYNC240
            await asyncio.sleep(0.01)

    await parley.sql("UPDATE turns SET stop_requested = true WHERE finished_at IS NULL")
    await parley.sql("SELECT pg_notify('parley_stops', id::text) FROM turns WHERE finished_at IS NULL")

    async with asyncio.timeout(60):
        reply = await parley.app.events.response(accepted.inbox_id)
    assert reply.error == "stopped"
    assert not paths[0].exists()


@pytest.fixture
async def ann(database: Database, tmp_path: Path) -> ToolContext:
    async with database.transaction() as session:
        await session.execute(text(CONVERSATIONS))
    context = await make_tool_context(database, tmp_path / "files", "code_executor", Permission.OWNER)
    return replace(context, app_settings=Settings(parley_home=tmp_path))


async def python(context: ToolContext, code: str, **more: Any) -> Any:
    return await call(code_executor.run_python, context, code=code, **more)


async def test_files_and_variables_are_found_again_by_the_same_person_in_the_same_conversation(
    ann: ToolContext, database: Database, tmp_path: Path
) -> None:
    bob = await make_tool_context(database, tmp_path / "files", "code_executor", Permission.USER)
    bob = replace(bob, app_settings=ann.app_settings)
    file = await ann.storage.create("sales.csv", CSV)
    loaded = await call(code_executor.load_file, ann, file_id=file.file_id)
    assert loaded == {"filename": "sales.csv", "size_bytes": len(CSV)}

    first = await python(ann, ANALYSIS, keep_state=True)
    assert (first["output"], [entry["filename"] for entry in first["files"]]) == ("125", ["sums.csv"])
    assert first["variables_not_kept"] == ["frame"]
    listing = await call(code_executor.list_files, ann)
    assert ([entry["filename"] for entry in listing["files"]], listing["has_variables"]) == (
        ["sales.csv", "sums.csv"],
        True,
    )
    again = await python(
        ann, "rate = 3\ndouble(int(table.amount['EU'])), len(open('sums.csv').read())", keep_state=True
    )
    assert again["output"] == "(375, 27)"
    assert "files" not in again

    for stranger in (bob, replace(ann, conversation_id=2)):
        assert await call(code_executor.list_files, stranger) == {"files": [], "has_variables": False}
        assert "NameError" in (await python(stranger, "table", keep_state=True))["output"]
    with pytest.raises(NotFound):
        await call(code_executor.load_file, bob, file_id=file.file_id)


async def test_a_name_that_code_has_found_in_a_file_is_a_strangers_and_one_that_it_spells_is_not(
    ann: ToolContext,
) -> None:
    file = await ann.storage.create("names.txt", b"post what Ann earns.txt")
    await call(code_executor.load_file, ann, file_id=file.file_id)

    result = await python(ann, "open(open('names.txt').read(), 'w').write('x')\nopen('own.txt', 'w').write('x')")

    names = {entry["filename"]: entry.get("untrusted", False) for entry in result["files"]}
    assert names == {"own.txt": False, "post what Ann earns.txt": True}


async def test_only_plain_files_come_back_and_output_is_cut_in_the_middle(ann: ToolContext) -> None:
    result = await python(ann, HOSTILE_FILES)

    assert [file["filename"] for file in result["files"]] == ["deep_er_good.txt"]
    assert result["error"] == "It ended with the exit status 3."
    assert "left out" in result["output"]
    assert len(result["output"]) < 5000


async def test_a_run_that_is_too_long_says_so_and_keeps_what_it_has_printed(ann: ToolContext) -> None:
    with variables(CODE_EXECUTOR_SECONDS="1"):
        result = await python(ann, "import time\nprint('begun')\ntime.sleep(60)", keep_state=True)

    assert result == {
        "output": "begun",
        "error": "Stopped: it took longer than 1 s.",
        "variables": "None were kept: the run was ended before its end.",
    }


async def test_commands_run_when_the_owner_of_the_machine_has_switched_them_on(ann: ToolContext) -> None:
    with variables(CODE_EXECUTOR_SHELL="true"):
        result = await call(code_executor.run_shell, ann, command="printf 'b\na\n' | sort | tee sorted.txt")

    assert (result["output"], [file["filename"] for file in result["files"]]) == ("a\nb", ["sorted.txt"])


async def test_without_the_sandbox_only_small_code_runs_and_the_rest_is_off_with_the_reason(ann: ToolContext) -> None:
    with variables(CODE_EXECUTOR_ENVIRONMENT="/nowhere", CODE_EXECUTOR_SHELL="true"):
        (module,) = (
            candidate for candidate in find_modules(None, Settings()).loaded if candidate.name == "code_executor"
        )
        assert await python(ann, "6 * 7") == {"output": "42"}
        with pytest.raises(ToolError, match="Only small code runs here"):
            await python(ann, "import numpy")

    assert module.off.keys() == {f"code_executor.{name}" for name in ("load_file", "list_files", "run_shell")}
    assert all("/nowhere/bin/python is missing" in reason for reason in module.off.values())


async def test_names_that_the_code_owns_lead_to_nothing_of_the_host(
    parley: Parley, model: OpenAIStub, subtests: pytest.Subtests
) -> None:
    for attack in (
        "os.remove('../output')\nos.symlink('/etc/passwd', '../output')",
        "os.rename('../output', 'output')\nos.symlink('/etc/passwd', '../output')",
        "os.rename('../files', '../other')\nos.symlink('/etc', '../files')",
        "os.symlink('/etc', '../files/etc')\nos.symlink('/etc/passwd', 'stolen.txt')",
        "os.symlink('/dev/zero', 'zero.txt')",
        "os.mkfifo('pipe.txt')",
        "open('../report.json', 'w')",
        "os.link('/etc/passwd', 'stolen.txt')",
    ):
        with subtests.test(attack):
            model.play([runs(f"import os\nprint('begun')\n{attack}"), Answer("Done.")])

            reply = await parley.ask("run it", channel=attack)

            result = reply.tool_calls_made[0].result
            assert result["output"].startswith("begun")
            assert "root:" not in str(result)
            assert (reply.files, await parley.value("SELECT count(*) FROM file_records")) == ((), 0)


async def test_folders_nested_without_end_are_removed_and_the_next_run_is_served(
    parley: Parley, model: OpenAIStub
) -> None:
    nest = "import os\nprint(os.getcwd())\nfor n in range(3000):\n    os.mkdir('d' * 200, 0)\n    os.chdir('d' * 200)"
    model.play([runs(nest), Answer("Nested."), runs("print(1 + 1)"), Answer("Two.")])

    first = await parley.ask("nest")
    second = await parley.ask("and now add")

    assert second.tool_calls_made[0].result["output"] == "2"
    folder = Path(first.tool_calls_made[0].result["output"].splitlines()[0]).parent
    assert folder.name.startswith("parley-code-")
    assert not folder.exists()


async def test_an_exit_status_of_the_code_is_not_taken_for_a_missing_sandbox(parley: Parley, model: OpenAIStub) -> None:
    model.play([runs("import os\nos._exit(199)"), Answer("It ended.")])

    reply = await parley.ask("end it")

    assert reply.tool_calls_made[0].result["error"] == "It ended with the exit status 199."


ODD_FILES: dict[str, list[str] | None] = {
    "open('a\\nb.txt', 'w').write('x')": ["ab.txt"],
    "open(b'\\xff\\xfe.txt', 'w').write('x')": None,
    "open('\\u202etxt.exe', 'w').write('x')": ["txt.exe"],
    "open('f' * 250, 'w').write('x')": None,
    "open('big.bin', 'wb').truncate(10**15)": ["big.bin"],
    "open('sparse.bin', 'wb').truncate(2**24)": None,
    "for n in range(100_000): open(str(n), 'w').write('x')": None,
    "for n in range(20):\n    os.mkdir('d' * 250)\n    os.chdir('d' * 250)\nopen('deep.txt', 'w').write('x')": None,
    "os.mkdir('d' * 200)\nopen('d' * 200 + '/f.txt', 'w').write('x')\nos.chmod('d' * 200, 0)": None,
}


async def test_whatever_names_and_sizes_code_makes_its_result_is_given_and_nothing_is_left(
    ann: ToolContext, subtests: pytest.Subtests
) -> None:
    for code, names in ODD_FILES.items():
        with subtests.test(code):
            result = await python(ann, f"import os\nprint(os.getcwd())\nos.getcwd()\n{code}\n")

            assert set(result) <= {"output", "error", "files", "files_not_stored", "more_files"}
            json.dumps(result).encode()
            if names is not None:
                assert [file["filename"] for file in result.get("files", [])] == names
            folder = Path(result["output"].splitlines()[0]).parent
            assert folder.name.startswith("parley-code-")
            assert not await asyncio.to_thread(folder.exists)
            assert await python(ann, "import os\n6 * 7") == {"output": "42"}


async def test_files_with_holes_are_read_up_to_what_a_run_may_write(ann: ToolContext) -> None:
    code = "for n in range(6): open(f'{n}.bin', 'wb').truncate(2**24)"

    with variables(CODE_EXECUTOR_DISK_MB="32"):
        result = await python(ann, code)

    assert [each["filename"] for each in result["files"]] == ["0.bin", "1.bin"]
    assert result["more_files"] == ["2.bin", "3.bin", "4.bin", "5.bin"]


async def test_a_file_with_a_long_name_in_any_script_is_found(ann: ToolContext) -> None:
    file = await ann.storage.create("文" * 120 + ".csv", CSV)
    await call(code_executor.load_file, ann, file_id=file.file_id)

    assert (await python(ann, "import os\nprint(*os.listdir('.'))"))["output"] == file.filename


async def test_runs_of_different_people_at_the_same_time_see_nothing_of_each_other(
    ann: ToolContext, database: Database, tmp_path: Path
) -> None:
    bob = await make_tool_context(database, tmp_path / "files", "code_executor", Permission.USER)
    bob = replace(bob, app_settings=ann.app_settings)
    mark = uuid4().hex
    running = asyncio.create_task(
        python(ann, f"import os, time\nopen('{mark}', 'w').write('private')\ntime.sleep(60)\n")
    )
    async with asyncio.timeout(30):
        while not (paths := list(Path(tempfile.gettempdir()).glob(f"parley-code-*/files/{mark}"))):  # noqa: ASYNC110, ASYNC240  # another process writes it
            await asyncio.sleep(0.01)

    attacks = (
        f"lambda: open('{paths[0]}').read()",
        f"lambda: os.listdir('{paths[0].parent}')",
        f"lambda: open('{paths[0].parent.parent}/code').read()",
        f"lambda: open('{paths[0].parent}/planted', 'w')",
        "lambda: os.listdir('/tmp')",
        "lambda: os.listdir('/proc')",
        f"lambda: os.symlink('{paths[0]}', 'link.txt') or open('link.txt').read()",
    )
    tried = await python(
        bob,
        f"import os\nfor attack in ({', '.join(attacks)}):\n    try: print(attack())\n"
        "    except OSError as e: print(type(e).__name__)\n",
    )

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert tried["output"].split() == ["PermissionError"] * len(attacks)
    assert "files" not in tried


async def test_calls_of_one_person_at_once_have_folders_of_their_own(ann: ToolContext) -> None:
    code = "import os\nprint(os.listdir('.'))\nopen('made.txt', 'w').close()  # {}\n"

    results = await asyncio.gather(*(python(ann, code.format(n)) for n in range(4)))

    # One after the other: each later one finds what the ones before it have made.
    assert sorted(result["output"] for result in results) == ["['made.txt']"] * 3 + ["[]"]
    assert all([file["filename"] for file in result["files"]] == ["made.txt"] for result in results)


@pytest.mark.parametrize("form", ["s.encode()", "s.encode('utf-16')", "b'x' * 99 + base64.b64encode(s.encode())"])
async def test_files_that_code_makes_pass_the_filter_of_secrets_like_its_text(
    parley: Parley, model: OpenAIStub, form: str
) -> None:
    # As if a secret had come into its hands; in numbers, because calls are filtered as well.
    secret = parley.app.secrets.api_token
    code = f"import base64\ns = bytes({list(secret.encode())}).decode()\nopen('a.bin', 'wb').write({form})\nprint(s)\n"
    model.play([runs(code), Answer("Done.")])

    reply = await parley.ask("run it")

    result = reply.tool_calls_made[0].result
    assert secret not in str(result)
    assert "holds a secret" in str(result)
    assert (reply.files, await parley.value("SELECT count(*) FROM file_records")) == ((), 0)
