"""What hostile code tries in the sandbox, and what it comes to; the same layers run everybody's code."""

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.db.pooling.event_loop import Loop
from shared.sandbox.job import FILES, MEGABYTE, OUTPUT, PROGRAM_FOLDER, Job, Limits
from shared.sandbox.runs import Ended, run_confined
from shared.sandbox.self_test import find_fault

PYTHON = Path(sys.prefix) / "code/bin/python"
LIMITS = Limits(memory_bytes=256 * MEGABYTE, file_bytes=MEGABYTE, folder_bytes=8 * MEGABYTE, folder_files=100)
THREAD_BOMB = """
import threading, time
threading.stack_size(2**15)
while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""
DELETED_FILES = """
import os, time
held = []
for n in range(20):
    held.append(open('f', 'wb', 0))
    held[-1].write(bytes(10**6))
    os.remove('f')
time.sleep(60)
"""
NESTED_FILES = """
import os
for n in range(20):
    os.mkdir('d' * 250)
    os.chdir('d' * 250)
for n in range(10**9): open(str(n % 50), 'wb').write(bytes(10**6))
"""
NAMES_OF_ONE_FILE = """
import os
open('a', 'w').close()
n = 0
while True:
    n += 1
    os.link('a', f'{n:0>200}')
"""
# A thread with a table of open files of its own could have as many again, and nobody would see them.
OTHER_OPEN_FILES = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print([libc.close_range(1000, 1001, flags) for flags in (0, 2, 4)])
"""
RESERVED = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
file = os.open('f', os.O_CREAT | os.O_RDWR)
print(libc.fallocate(file, 0, ctypes.c_long(0), ctypes.c_long(10**5)), os.strerror(ctypes.get_errno()))
os.posix_fallocate(file, 0, 10**5)
print(os.fstat(file).st_size)
"""
DELETED_FILES_OF_CHILDREN = """
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
    (exec 3> f$n; rm f$n; dd if=/dev/zero bs=1000 count=1000 >&3; sleep 60) &
done
wait
"""
SHELL = ("/bin/sh", "-c")
REFUSED = "Operation not permitted"
DENIED = "Permission denied"
# Each is asked for by its number, and prints how it failed.
RAW_CALLS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in {}:
    print(libc.syscall(number, 0, 0, 0, 0, 0), ctypes.get_errno())
"""
NUMBERS = {
    "x86_64": {"ptrace": 101, "mount": 165, "unshare": 272, "perf_event_open": 298, "bpf": 321, "userfaultfd": 323}
    | {"io_uring_setup": 425, "keyctl": 250, "memfd_create": 319, "setsid": 112, "pidfd_open": 434},
    "aarch64": {"ptrace": 117, "mount": 40, "unshare": 97, "perf_event_open": 241, "bpf": 280, "userfaultfd": 282}
    | {"io_uring_setup": 425, "keyctl": 219, "memfd_create": 279, "setsid": 157, "pidfd_open": 434},
}[os.uname().machine]


async def run(folder: Path, code: str, limits: Limits = LIMITS, command: tuple[str, ...] | None = None) -> Ended:
    return await run_confined(Job(folder, limits, os.getpid(), command=command), code, PYTHON)


def output_of(folder: Path) -> str:
    return (folder / OUTPUT).read_text("utf-8")


@contextmanager
def open_secretly(folder: Path) -> Iterator[None]:
    """Have a secret in the environment, and a file open that other processes would inherit if nobody closed it."""
    os.environ["OPENAI_API_KEY"] = "sk-not-for-strangers"
    descriptor = os.open(folder / "secret", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(descriptor, True)
    try:
        yield
    finally:
        os.close(descriptor)
        del os.environ["OPENAI_API_KEY"]


@pytest.mark.parametrize(
    ("attack", "answer"),
    [
        ("import os\nwhile True: os.fork()", REFUSED),
        ("import subprocess\nsubprocess.run(['/bin/true'])", REFUSED),
        ("import os\nos.execv('/bin/true', ['true'])", REFUSED),
        (THREAD_BOMB, "can't start new thread"),
        ("x = []\nwhile True: x.append(bytearray(10**7))", "MemoryError"),
        ("open('/etc/passwd').read()", DENIED),
        ("import os\nopen(f'/proc/{os.getppid()}/environ').read()", DENIED),
        ("open('/proc/self/environ').read()", DENIED),
        ("import os\nos.listdir('/')", DENIED),
        ("open('/tmp/parley-was-here', 'w')", DENIED),
        ("import os, sys\nos.remove(sys.executable)", DENIED),
        ("import socket\nsocket.create_connection(('127.0.0.1', 80))", REFUSED),
        ("import socket\nsocket.socket(socket.AF_UNIX)", REFUSED),
        ("import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)", REFUSED),
        ("import os\nos.kill(os.getppid(), 9)", REFUSED),
        ("import os\nos.kill(-1, 9)", REFUSED),
        ("import os, fcntl\nfcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())", REFUSED),
        ("import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))", REFUSED),
        ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40))", "not allowed to raise"),
        ("import os\nos.truncate('/etc/passwd', 0)", REFUSED),
        ("import os\nos.link('/etc/passwd', 'passwd')", "Error"),
        ("import os\nos.setuid(0)", REFUSED),
        ("import os\nos.mknod('device', 0o600 | 0o060000, os.makedev(8, 0))", REFUSED),
    ],
)  # fmt: skip
async def test_an_attack_is_refused(tmp_path: Path, attack: str, answer: str) -> None:
    ended = await run(tmp_path, attack)

    assert ended == Ended(1)
    assert answer in output_of(tmp_path).splitlines()[-1]


async def test_calls_of_the_system_that_code_has_no_need_for_are_refused(tmp_path: Path) -> None:
    await run(tmp_path, RAW_CALLS.format(tuple(NUMBERS.values())))

    assert output_of(tmp_path).split() == ["-1", "1"] * len(NUMBERS)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, Loop])
def test_nothing_of_ours_is_in_the_environment_or_open(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    descriptors = "print(*(n for n in range(200) if os.path.exists(f'/proc/self/fd/{n}')))"
    with open_secretly(tmp_path), asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run(tmp_path, f"import os, sys\nprint(*os.environ)\nprint(*sys.path)\n{descriptors}"))

    names, path, opened = output_of(tmp_path).splitlines()
    # What is to be shown and kept of the run is written by the process itself, behind the code.
    assert len(opened.split()) == len(("in", "out", "error", "report", "variables"))
    assert set(names.split()) == {
        *("HOME", "LANG", "MALLOC_ARENA_MAX", "MPLBACKEND", "MPLCONFIGDIR", "OPENBLAS_NUM_THREADS", "PATH", "TMPDIR")
    }
    assert str(PROGRAM_FOLDER) not in path.split()


async def test_an_endless_loop_is_stopped_by_the_clock_and_by_its_processor_time(tmp_path: Path) -> None:
    for name, limits, code in (
        ("wall", LIMITS._replace(seconds=0.5), "import time\nprint('begun')\nwhile True: time.sleep(60)"),
        ("cpu", LIMITS._replace(cpu_seconds=1), "while True: pass"),
    ):
        (tmp_path / name).mkdir()
        ended = await run(tmp_path / name, code, limits)
        assert (
            ended.stopped
            == {"wall": "it took longer than 0.5 s", "cpu": "it used more than 1 s of processor time"}[name]
        )


async def test_a_flood_of_output_ends_at_the_size_of_a_file(tmp_path: Path) -> None:
    ended = await run(tmp_path, "while True: print('x' * 1000)")

    assert ended.status != 0
    assert (tmp_path / OUTPUT).stat().st_size <= LIMITS.file_bytes


@pytest.mark.parametrize(
    ("code", "stopped"),
    [
        (
            "for n in range(10**9): open(str(n % 50), 'wb').write(bytes(10**6))",
            "its files took more than 8 MB",
        ),
        ("n = 0\nwhile True:\n    n += 1\n    open(str(n), 'wb')", "it made more than 100 files"),
        (
            "import os\nn = 0\nwhile True:\n    n += 1\n    os.mkdir(str(n))\n    os.chdir(str(n))",
            "it nested more than 32 folders",
        ),
        (
            NESTED_FILES,
            "its files took more than 8 MB",
        ),
        (DELETED_FILES, "its files took more than 8 MB"),
        (NAMES_OF_ONE_FILE, "it made more than 100 files"),
    ],
)
async def test_a_disk_is_not_filled(tmp_path: Path, code: str, stopped: str) -> None:
    assert (await run(tmp_path, code)).stopped == stopped


async def test_files_that_commands_have_deleted_and_hold_open_count(tmp_path: Path) -> None:
    ended = await run(tmp_path, DELETED_FILES_OF_CHILDREN, LIMITS._replace(tasks=32, seconds=10), SHELL)

    assert ended.stopped == "its files took more than 8 MB"


async def test_room_is_not_taken_out_of_sight_or_without_writing(tmp_path: Path) -> None:
    for name, code, output in (
        ("tables", OTHER_OPEN_FILES, "[0, -1, 0]\n"),
        ("reserved", RESERVED, "-1 Operation not supported\n100000\n"),
    ):
        (tmp_path / name).mkdir()
        await run(tmp_path / name, code)
        assert output_of(tmp_path / name) == output


async def test_modes_and_owners_of_files_elsewhere_stay(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    outside.chmod(0o640)
    (tmp_path / "run").mkdir()
    path = repr(str(outside))
    attack = f"import os\nos.chmod({path}, 0o777)\nos.utime({path}, (0, 0))\nos.chown({path}, 1, 1)"

    ended = await run(tmp_path / "run", attack)

    stat = outside.stat()
    assert (ended, stat.st_mode & 0o777, stat.st_uid) == (Ended(0), 0o640, os.getuid())
    assert stat.st_mtime > 0


async def test_what_honest_code_needs_works(tmp_path: Path) -> None:
    honest = (
        "import asyncio, shutil, sqlite3, tempfile, threading, zoneinfo",
        "open('a', 'w').write('x')",
        "shutil.copy2('a', 'b')",
        "tempfile.TemporaryFile().write(b'x')",
        "sqlite3.connect('c.db').execute('CREATE TABLE t (a)')",
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()",
        "print(zoneinfo.ZoneInfo('Europe/Berlin'))",
        "asyncio.run(asyncio.sleep(0.001, 'awake'))",
    )

    ended = await run(tmp_path, "\n".join(honest))

    assert (ended, output_of(tmp_path)) == (Ended(0), "thread\nEurope/Berlin\n'awake'\n")
    assert sorted(path.name for path in (tmp_path / FILES).iterdir()) == ["a", "b", "c.db"]


async def test_a_run_that_is_cancelled_has_ended_its_process(tmp_path: Path) -> None:
    task = asyncio.create_task(
        run(tmp_path, "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)")
    )
    process = await wait_for_number(tmp_path / FILES / "pid")

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not is_running(process)


@pytest.mark.parametrize("command", [None, SHELL])
async def test_code_ends_with_the_worker_that_is_killed(tmp_path: Path, command: tuple[str, ...] | None) -> None:
    # A shell's children are not told; what the shell has started in the background ends all the same.
    code = (
        "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"
        if command is None
        else "sleep 60 & printf %s $! > pid; wait"
    )
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, str(tmp_path), code, repr(command), cwd=PROGRAM_FOLDER, stdout=PIPE
    )
    process = await wait_for_number(tmp_path / FILES / "pid")

    worker.kill()
    await worker.wait()

    await wait_until_gone(process)


WORKER = """
import asyncio, os, sys
from pathlib import Path
from shared.sandbox.job import Job, Limits
from shared.sandbox.runs import run_confined
job = Job(Path(sys.argv[1]), Limits(), os.getpid(), command=eval(sys.argv[3]))
asyncio.run(run_confined(job, sys.argv[2], Path(sys.prefix) / "code/bin/python"))
"""


async def wait_for_number(path: Path) -> int:
    async with asyncio.timeout(30):
        while not (digits := path.read_text() if path.exists() else ""):  # noqa: ASYNC110, ASYNC240  # another process writes it
            await asyncio.sleep(0.01)
    return int(digits)


async def wait_until_gone(process: int) -> None:
    async with asyncio.timeout(30):
        while is_running(process):  # noqa: ASYNC110  # another process's end is no event of ours
            await asyncio.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    # Nobody may have asked yet how it ended.
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("cat /etc/passwd", DENIED),
        ("cat /proc/$PPID/environ", DENIED),
        ("f() { f | f & }; f; sleep 0.3; echo $(ls /proc)", "fork"),
        ("echo $$ > /tmp/parley-was-here", DENIED),
        ("kill -9 $PPID", REFUSED),
        ("kill -9 -1", REFUSED),
        ("setsid sleep 60", REFUSED),
        ("dd if=/dev/zero of=f bs=1M count=4", "File too large"),
    ],
)
async def test_commands_have_no_more_rights(tmp_path: Path, command: str, answer: str) -> None:
    await run(tmp_path, command, LIMITS._replace(tasks=16, seconds=5), SHELL)

    assert answer.lower() in output_of(tmp_path).lower()


async def test_commands_work_and_leave_no_process(tmp_path: Path) -> None:
    ended = await run(
        tmp_path, "printf 'b\\na\\n' | sort > sorted; cat sorted; sleep 60 & echo $!; exit 3", LIMITS, SHELL
    )

    *lines, process = output_of(tmp_path).split()
    assert (ended, lines) == (Ended(3), ["a", "b"])
    await wait_until_gone(int(process))


def test_the_self_test_passes_here_and_is_noted_until_the_machine_starts_again(tmp_path: Path) -> None:
    assert find_fault(PYTHON, tmp_path) is None
    assert len(list(tmp_path.glob(".sandbox-tested-*"))) == 1


def test_a_sandbox_that_confines_nothing_is_found_out(tmp_path: Path) -> None:
    # An interpreter that runs the code without the layers.
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\ncd "$4/files" && exec {sys.executable} ../code\n')
    fake.chmod(0o755)

    fault = find_fault(fake, tmp_path)

    assert fault is not None
    assert fault.startswith("the sandbox failed its test: fork, allocate, read_passwords")
    assert list(tmp_path.glob(".sandbox-tested-*")) == []


def test_a_sandbox_that_can_not_be_entered_is_off_with_the_missing_layer(tmp_path: Path) -> None:
    # As in a container without Landlock: a filter refuses its calls to whatever this process starts.
    program = (
        "import os, sys; from pathlib import Path; from shared.sandbox.self_test import find_fault\n"
        "print(find_fault(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", WITHOUT_LANDLOCK + program, str(PYTHON), str(tmp_path)]

    ended = subprocess.run(command, cwd=PROGRAM_FOLDER, capture_output=True, text=True, check=True)

    assert "this system has no Landlock" in ended.stdout


WITHOUT_LANDLOCK = "from tests.support.landlock import remove_landlock; remove_landlock()\n"
