"""Plays the attacks that the sandbox is there for. One that gets through, or a missing layer, means that it is off."""

import asyncio
import hashlib
import os
import platform
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from shared.sandbox.job import MEGABYTE, NO_CONFINEMENT, OUTPUT, Job, Limits
from shared.sandbox.landlock import find_version
from shared.sandbox.programs import PARSING, Program, SandboxMissing, run_program
from shared.sandbox.runs import run_confined
from shared.sandbox.syscalls import is_known_machine

LIMITS = Limits(memory_bytes=256 * MEGABYTE, file_bytes=MEGABYTE, folder_bytes=4 * MEGABYTE, seconds=10)
ENDLESS_SECONDS = 0.3
BOOT = Path("/proc/sys/kernel/random/boot_id")
# Each prints its name when it gets through; "done" shows that all were played.
ATTACKS = """
import os, socket, threading, time

def fork():
    if os.fork() == 0:
        os._exit(0)

def start():
    os.execv("/bin/true", ["true"])

def allocate():
    bytearray(2**29)

def multiply():
    threading.stack_size(2**15)
    for _ in range(200):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

def read_passwords():
    open("/etc/passwd").read()

def read_environment():
    open(f"/proc/{os.getppid()}/environ").read()

def signal_parent():
    os.kill(os.getppid(), 0)

def connect():
    socket.create_connection(("127.0.0.1", 9), timeout=1)

def open_socket():
    socket.socket(socket.AF_UNIX)

def write_outside():
    open("../../parley-sandbox-test", "w")

def write_beside():
    open("../beside", "w")

def replace_output():
    os.remove("../output")

def replace_files():
    os.rename("../files", "../other")

for attack in (fork, allocate, read_passwords, read_environment, signal_parent, connect, open_socket,
               write_outside, write_beside, replace_output, replace_files, multiply, start):
    try:
        attack()
    except (OSError, MemoryError, RuntimeError):
        pass
    else:
        print(attack.__name__, flush=True)
print("done", flush=True)
os._exit(0)
"""
ENDLESS = "while True: pass"
FLOOD = "while True: print('x' * 10_000)"
FILL = "n = 0\nwhile True:\n    n += 1\n    open(str(n), 'wb').write(bytes(2**20))"


@cache
def find_fault(python: Path, notes: Path) -> str | None:
    """Return why nothing may be run with this interpreter here, None when every attack has failed.

    A test that was passed is noted in the folder `notes`, if that can be written, and holds until the machine starts
    again. Each run enters all layers by itself in any case.
    """
    if (layer_fault := _find_missing_layer()) is not None:
        return layer_fault
    # What a test depends on: this program, the kernel since its start, the user, the interpreter.
    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    boot = BOOT.read_bytes() if BOOT.exists() else b""
    # A container that takes more rights away is another one.
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    rights = "\n".join(line for line in lines if line.startswith(("Cap", "NoNewPrivs", "Seccomp:")))
    circumstances = f"{platform.release()} {os.geteuid()} {python.resolve()} {rights}".encode()
    fingerprint = hashlib.sha256(b"\0".join([*sources, boot, circumstances])).hexdigest()[:16]
    note = notes / f".sandbox-tested-{fingerprint}"
    if note.exists():
        return None
    # In a thread with a loop of its own: the caller's may be running.
    with ThreadPoolExecutor(1) as thread:
        fault = thread.submit(asyncio.run, _play(python)).result()
    if fault is None:
        with suppress(OSError):
            for old in notes.glob(".sandbox-tested-*"):
                old.unlink()
            note.touch()
    return fault


def _find_missing_layer() -> str | None:
    if sys.platform != "linux":
        return "the sandbox needs Linux"
    if not is_known_machine():
        return f"the sandbox knows x86-64 and arm64, not {platform.machine()}"
    if find_version() < 1:
        return "this system has no Landlock, which the sandbox needs (Linux 5.13 or newer, not switched off)"
    return None


async def find_fault_of_programs() -> str | None:
    """Return why Parley's own programs can't open what strangers have made; the same attacks are played as one."""
    if (layer_fault := _find_missing_layer()) is not None:
        return layer_fault
    try:
        with tempfile.TemporaryDirectory(prefix="parley-sandbox-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "attacks.py"
            path.write_text(ATTACKS, "utf-8")
            limits = PARSING._replace(memory_bytes=LIMITS.memory_bytes, seconds=LIMITS.seconds)
            ended = await run_program(Program(path, limits=limits), b"")
    except SandboxMissing as error:
        return str(error.fields["fault"])
    except TimeoutError:
        return f"the sandbox can't be tested: its attacks took longer than {LIMITS.seconds:g} s"
    except OSError as error:
        return f"the sandbox can't be tested: {error}"
    output = ended.output.decode("utf-8", "replace").split()
    return None if output == ["done"] else f"the sandbox failed its test: {', '.join(output[:3]) or ended.reason}"


async def _play(python: Path) -> str | None:
    runs = (
        ("attacks", ATTACKS, LIMITS),
        ("endless", ENDLESS, LIMITS._replace(seconds=ENDLESS_SECONDS)),
        ("flood", FLOOD, LIMITS),
        ("fill", FILL, LIMITS),
    )
    with tempfile.TemporaryDirectory(prefix="parley-sandbox-", ignore_cleanup_errors=True) as folder:
        try:
            for name, _, _ in runs:
                (Path(folder) / name).mkdir()
            # Opened before: an attack that gets through takes the name away.
            with (Path(folder) / "attacks" / OUTPUT).open("w+", encoding="utf-8", errors="replace") as file:
                jobs = [(Job(Path(folder) / name, limits, os.getpid()), code) for name, code, limits in runs]
                attacks, endless, flood, fill = await asyncio.gather(
                    *(run_confined(job, code, python) for job, code in jobs)
                )
                output = file.read().split("\n")
            flood_bytes = (Path(folder) / "flood" / OUTPUT).stat().st_size
        except OSError as error:
            return f"the sandbox can't be tested: {error}"
    if attacks.status == NO_CONFINEMENT and not attacks.has_entered:
        return f"the sandbox can't be entered here: {output[0]}"
    if output[:-1] != ["done"]:
        return f"the sandbox failed its test: {', '.join(output[:3]) or attacks}"
    if not endless.stopped:
        return f"the sandbox failed its test: an endless loop ended by itself ({endless})"
    if flood_bytes > LIMITS.file_bytes:
        return f"the sandbox failed its test: {flood_bytes} bytes of output ({flood})"
    return None if fill.stopped else f"the sandbox failed its test: a full disk was not prevented ({fill})"
