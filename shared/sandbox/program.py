"""What runs in the confined process: it gives up its rights, then runs the person's code, or a shell."""

import ast
import importlib
import json
import linecache
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from shared.sandbox.confinement import confine
from shared.sandbox.job import CODE, FILES, NO_CONFINEMENT, STATE, Job

NAME = "<code>"
PICTURES = {".png", ".jpg", ".jpeg", ".svg", ".pdf", ".gif", ".webp"}


def main() -> None:
    """Run the job whose folder is the first argument; never returns.

    The others are descriptors: for the report, for the variables, and to tell that the sandbox was entered.
    """
    job = Job.read(Path(sys.argv[1]))
    report, state, entering = map(int, sys.argv[2:5])
    del sys.argv[1:]
    sys.path[:] = [folder for folder in sys.path if folder != job.program_folder]
    os.chdir(job.folder / FILES)
    code = (job.folder / CODE).read_text("utf-8")
    try:
        confine(job.rights, (report, state, entering))
    except (OSError, ValueError) as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
        sys.stdout.flush()
        os._exit(NO_CONFINEMENT)
    os.write(entering, b"1")
    os.close(entering)
    if job.command is not None:
        os.close(report)
        os.close(state)
        if (child := os.fork()) == 0:
            os.execv(job.command[0], [*job.command, code])  # noqa: S606  # confined, as this process is
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # As shells say it: 128 and the signal.
        os._exit(status if status >= 0 else 128 - status)
    # In the order in which they were written, and at once: what a killed program has said is shown.
    sys.stdout.reconfigure(line_buffering=True, errors="replace")  # type: ignore[union-attr]  # a text file
    sys.stderr = sys.stdout
    status = _run(code, job, report_file=report, state_file=state)
    try:
        sys.stdout.flush()
    finally:
        # Threads that are left over must not keep the process.
        os._exit(status)


def _run(code: str, job: Job, *, report_file: int, state_file: int) -> int:
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    linecache.cache[NAME] = (len(code), None, code.splitlines(keepends=True), NAME)
    report: dict[str, Any] = {"kept": [], "left_out": []}
    try:
        if job.keeps_state and (job.folder / STATE).stat().st_size:
            with (job.folder / STATE).open("rb") as file:
                vars(module).update(_pickler().load(file))
        status = _execute(code, vars(module))
        _save_figures()
        if job.keeps_state:
            report.update(_save_state(state_file, vars(module)))
    except BaseException:  # noqa: BLE001  # shown to its author
        # Variables of an earlier run, and methods of those of this one, may raise anything.
        _show_error()
        status = 1
    _replace(report_file, json.dumps(report).encode())
    return status


def _execute(code: str, names: dict[str, Any]) -> int:
    try:
        tree = ast.parse(code, NAME)
        # The value of an expression at the end is shown, as the interpreter shows it.
        expressions = [tree.body[-1].value] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
        del tree.body[len(tree.body) - len(expressions) :]
        endings = [compile(ast.Expression(expression), NAME, "eval") for expression in expressions]
        for part in (compile(tree, NAME, "exec"), *endings):
            value = eval(part, names)  # noqa: S307  # that is what the sandbox is for
            if value is not None:
                sys.stdout.write(f"{value!r}\n")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  # shown to its author
        _show_error()
        return 1
    return 0


def _show_error() -> None:
    kind, error, trace = sys.exc_info()
    # Without the frames of this file.
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


def _save_figures() -> None:
    """Save figures that are still open, unless the code has saved pictures by itself."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    start = (Path.cwd().parent / CODE).stat().st_mtime_ns
    new_files = [path for path in Path.cwd().rglob("*") if path.is_file() and path.stat().st_mtime_ns > start]
    if any(path.suffix.lower() in PICTURES for path in new_files):
        return
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(f"figure_{number}.png")


def _save_state(file: int, names: dict[str, Any]) -> dict[str, Any]:
    pickler = _pickler()
    variables: dict[str, Any] = {}
    left_out = []
    for name, value in names.items():
        if name.startswith("__"):
            continue
        try:
            pickler.dumps(value)
        except Exception:  # noqa: BLE001  # whatever the methods of a value raise, the others are kept
            left_out.append(name)
        else:
            variables[name] = value
    # All in one, so that two names of one value still are after it.
    _replace(file, pickler.dumps(variables))
    return {"kept": sorted(variables), "left_out": sorted(left_out)}


def _replace(file: int, content: bytes) -> None:
    # The code may have closed it, or opened something else under its number; then nothing is left.
    with suppress(OSError), os.fdopen(file, "wb", closefd=False) as output:
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        output.write(content)


def _pickler() -> Any:
    # Imported only now, because it looks for the module `__main__` that the code runs in.
    return importlib.import_module("dill")
