"""A parser that a stranger's file has taken over: what it tries in the sandbox, and what it comes to."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from modules.data_analyst.duckdb_engine import CGROUP
from shared.db.pooling.event_loop import Loop
from shared.sandbox.job import MEGABYTE, PROGRAM_FOLDER
from shared.sandbox.pool import Sandbox
from shared.sandbox.programs import OUTPUT_BYTES, PARSING, Finished, Program, run_program
from tests.shared.sandbox.test_attacks import WITHOUT_LANDLOCK, open_secretly, wait_until_gone

LIMITS = PARSING._replace(memory_bytes=256 * MEGABYTE, seconds=20)
REFUSED, DENIED = "Operation not permitted", "Permission denied"


async def run(folder: Path, code: str, **more: object) -> Finished:
    path = folder / "program.py"
    path.write_text(code)
    return await run_program(replace(Program(path, limits=LIMITS), **more), b"content")


@pytest.mark.parametrize("has_folder", [False, True])
@pytest.mark.parametrize(
    ("attack", "answer"),
    [
        ("open('/etc/shadow').read()", DENIED),
        ("open('/etc/passwd').read()", DENIED),
        ("import os\nos.listdir('/')", DENIED),
        ("import os\nos.listdir('/tmp')", DENIED),
        ("import os\nopen(f'/proc/{os.getppid()}/environ').read()", DENIED),
        ("import os\nos.listdir(f'/proc/{os.getppid()}/fd')", DENIED),
        ("import os\nos.readlink(f'/proc/{os.getppid()}/exe')", DENIED),
        ("import os\nopen(f'/proc/{os.getppid()}/mem', 'rb')", DENIED),
        ("open('/proc/self/environ').read()", DENIED),
        ("import socket\nsocket.create_connection(('127.0.0.1', 80))", REFUSED),
        ("import socket\nsocket.getaddrinfo('example.org', 80)", "gaierror"),
        ("import socket\nsocket.socket(socket.AF_UNIX)", REFUSED),
        ("import subprocess\nsubprocess.run(['/bin/true'])", REFUSED),
        ("import os\nos.execv('/bin/true', ['true'])", REFUSED),
        ("import os\nwhile True: os.fork()", REFUSED),
        ("import os\nos.kill(os.getppid(), 9)", REFUSED),
        ("open('/tmp/parley-was-here', 'w')", DENIED),
        ("open('/dev/shm/parley-was-here', 'w')", DENIED),
        ("import os\nos.mkfifo('/tmp/parley-was-here')", REFUSED),
        ("import os, sys\nos.remove(os.__file__)", DENIED),
        ("import os, PIL\nopen(PIL.__file__, 'a')", DENIED),
        ("x = []\nwhile True: x.append(bytearray(10**7))", "MemoryError"),
        ("import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
         "can't start new thread"),
        ("import ctypes\nctypes.CDLL(None).system(b'true') == 0 or exit('it was refused: Error')", "Error"),
    ],
)  # fmt: skip
async def test_an_attack_is_refused(tmp_path: Path, attack: str, answer: str, has_folder: bool) -> None:
    process = await run(tmp_path, attack, has_folder=has_folder)

    assert (process.status, process.output) == (1, b"")
    assert answer in process.reason.splitlines()[-1]


async def test_data_of_this_installation_is_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "api_token").write_text("token")
    token, program = str(tmp_path / "api_token"), str(PROGRAM_FOLDER / "pyproject.toml")

    for path in (token, program, str(tmp_path / "program.py")):
        process = await run(tmp_path, f"open({path!r}).read()")
        assert DENIED in process.reason


async def test_only_the_files_that_are_named_are_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("named.csv", "other.csv"):
        (tmp_path / "data" / name).write_text(name)
    (tmp_path / "data" / "link.csv").symlink_to("/etc/passwd")
    code = (
        f"import os\nos.chdir({str(tmp_path / 'data')!r})\nfor n in ('named', 'other', 'link'):\n"
        "    try: print(open(n + '.csv').read())\n    except OSError as e: print(type(e).__name__)"
    )

    process = await run(tmp_path, code, readable=(tmp_path / "data/named.csv",))

    assert process.output.decode().split() == ["named.csv", "PermissionError", "PermissionError"]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, Loop])
def test_nothing_of_ours_is_in_its_environment_or_open(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with open_secretly(tmp_path), asyncio.Runner(loop_factory=loop) as runner:
        code = "import os\nprint(*os.environ)\nprint(*(n for n in range(200) if os.path.exists(f'/proc/self/fd/{n}')))"
        process = runner.run(run(tmp_path, code))

    names, descriptors = process.output.decode().splitlines()
    assert set(names.split()) == {
        *("HOME", "LANG", "MALLOC_ARENA_MAX", "MPLBACKEND", "MPLCONFIGDIR", "OPENBLAS_NUM_THREADS", "PATH", "TMPDIR")
    }
    assert descriptors.split() == ["0", "1", "2"]


async def test_an_endless_loop_ends_by_the_clock_and_by_its_processor_time(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        await run(tmp_path, "import time\nwhile True: time.sleep(60)", limits=LIMITS._replace(seconds=0.5))
    process = await run(tmp_path, "while True: pass", limits=LIMITS._replace(cpu_seconds=1))
    assert process.status == -24


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_flood_of_output_ends_the_process(tmp_path: Path, stream: str) -> None:
    process = await run(tmp_path, f"import sys\nwhile True: sys.{stream}.write('x' * 100_000)")

    assert process.status == -9
    assert len(process.output) <= OUTPUT_BYTES


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("n = 0\nwhile True:\n    n += 1\n    open(str(n), 'wb')", "it made more than 1,000 files"),
        ("import os\nwhile True:\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)", "it nested more than 32 folders"),
        ("for n in range(10**9): open(str(n % 90), 'wb').write(bytes(10**6))", "its files took more than 64 MB"),
    ],
)
def test_a_disk_is_not_filled_and_nothing_is_left(tmp_path: Path, code: str, reason: str) -> None:
    folders, program = tmp_path / "folders", tmp_path / "program.py"
    folders.mkdir()
    program.write_text(code)

    # In a process of its own, which has its own place for temporary files.
    ended = subprocess.run(
        [sys.executable, "-c", FILLING, str(program)],
        cwd=PROGRAM_FOLDER,
        env={"TMPDIR": str(folders)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout == f"-9 {reason}\n"
    assert list(folders.iterdir()) == []


FILLING = """
import asyncio, sys
from pathlib import Path
from shared.sandbox.programs import PARSING, Program, run_program
limits = PARSING._replace(file_bytes=2**20)
finished = asyncio.run(run_program(Program(Path(sys.argv[1]), limits=limits, has_folder=True), b""))
print(finished.status, finished.reason)
"""


async def test_an_exit_status_of_the_parser_is_not_taken_for_a_missing_sandbox(tmp_path: Path) -> None:
    assert (await run(tmp_path, "import os\nos._exit(199)")).status == 199


async def test_a_parser_ends_with_the_worker_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import time\ntime.sleep(60)")
    code = (
        "import asyncio, sys; from pathlib import Path; from shared.sandbox.programs import Program, run_program\n"
        "asyncio.run(run_program(Program(Path(sys.argv[1])), b''))"
    )
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path), cwd=PROGRAM_FOLDER)
    async with asyncio.timeout(30):
        while (process := find_confined_child(worker.pid)) is None:  # noqa: ASYNC110  # another process begins by itself
            await asyncio.sleep(0.01)

    worker.kill()
    await worker.wait()

    await wait_until_gone(process)


def find_confined_child(process: int) -> int | None:
    """Return the child of a process that filters its system calls."""
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        if "Seccomp:\t2" in Path(f"/proc/{child}/status").read_text():
            return int(child)
    return None


async def test_the_attacks_are_played_here_and_fail() -> None:
    assert await Sandbox().find_fault() is None


def test_without_landlock_nothing_is_opened_and_the_remedy_is_told(tmp_path: Path) -> None:
    opens = tmp_path / "opens.py"
    opens.write_text("print('opened')")
    code = (
        "import asyncio, sys; from pathlib import Path; from shared.sandbox.pool import Sandbox\n"
        "from shared.sandbox.programs import Program, SandboxMissing, run_program\n"
        "async def main():\n"
        "    for run in (lambda p: Sandbox().run(1, p, b''), lambda p: run_program(p, b'')):\n"
        "        try: print(await run(Program(Path(sys.argv[1]))))\n"
        "        except SandboxMissing as error: print(error)\n"
        "    try:\n"
        "        async with Sandbox().enter(1): print('entered')\n"
        "    except SandboxMissing as error: print(error)\n"
        "asyncio.run(main())"
    )

    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_LANDLOCK + code, str(opens)],
        cwd=PROGRAM_FOLDER,
        capture_output=True,
        text=True,
        check=True,
    )

    gate, process, place = (line for line in ended.stdout.splitlines() if line.startswith("Nothing from outside"))
    assert "opened'" not in ended.stdout
    assert "this system has no Landlock" in gate
    assert place == gate
    assert "Landlock is missing" in process
    assert "Linux 5.13 or newer" in gate


DUCKDB = """
import duckdb, sys
connection = duckdb.connect(":memory:", config={"allow_unsigned_extensions": True, "temp_directory": "."})
for statement in sys.argv[1:]:
    try:
        print(connection.execute(statement).fetchall())
    except Exception as error:
        print("refused:", str(error).splitlines()[0])
"""
REACHING = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/shadow')",
    "SELECT * FROM read_blob('/proc/self/environ')",
    "SELECT * FROM read_text('{folder}/other.csv')",
    "SELECT * FROM glob('/etc/*')",
    "COPY (SELECT 1) TO '/tmp/parley-was-here.csv'",
    "COPY (SELECT 1) TO '{folder}/named.csv'",
    "EXPORT DATABASE '/tmp/parley-was-here'",
    "ATTACH '/tmp/parley-was-here.db'",
    "ATTACH '{folder}/other.csv'",
    "INSTALL httpfs",
    "LOAD '/tmp/evil.duckdb_extension'",
    "SELECT * FROM read_csv('http://127.0.0.1/a.csv')",
]


async def test_duckdb_reaches_nothing_even_where_its_own_settings_allow_everything(tmp_path: Path) -> None:
    for name in ("named.csv", "other.csv"):
        (tmp_path / name).write_text("a\n1\n")
    path = tmp_path / "duckdb_attack.py"
    path.write_text(DUCKDB)
    limits = LIMITS._replace(memory_bytes=1536 * MEGABYTE, file_bytes=16 * MEGABYTE)
    sane = "SELECT a FROM '{folder}/named.csv'"
    statements = [statement.format(folder=tmp_path) for statement in (sane, *REACHING, sane)]
    program = Program(path, limits=limits, readable=(tmp_path / "named.csv", *CGROUP), has_folder=True)

    finished = await run_program(replace(program, arguments=tuple(statements)), b"")

    first, *results, last = finished.output.decode().splitlines()
    assert (first, last, len(results)) == ("[(1,)]", "[(1,)]", len(REACHING)), finished
    # A pattern that nothing may be found for finds nothing.
    answers = zip(REACHING, results, strict=True)
    assert [(what, result) for what, result in answers if not (result.startswith("refused:") or result == "[]")] == []
    assert not list(Path("/tmp").glob("parley-was-here*"))  # noqa: ASYNC240, S108
    assert (tmp_path / "named.csv").read_text() == "a\n1\n"
