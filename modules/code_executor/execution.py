"""One run: the workspace is read, the code runs confined, and what it has made is stored."""

import asyncio
import json
import os
import re
import signal
from asyncio import AbstractEventLoop
from typing import Any
from weakref import WeakKeyDictionary

from msgspec import Struct

from modules.code_executor.folders import Made, fill_folder, make_run_folder, read_made, read_output
from modules.code_executor.settings import CodeExecutorSettings
from modules.code_executor.workspaces import list_workspace, read_workspace, update_workspace
from shared.errors import ToolError
from shared.log import get_logger
from shared.messages import Author
from shared.sandbox.job import MEGABYTE, NO_CONFINEMENT, REPORT, STATE, Job
from shared.sandbox.runs import Ended, run_confined
from shared.sandbox.tree import read_file, remove
from shared.tasks import FairPool
from shared.text import clean
from shared.tools import ToolContext

RUNS_OF_PERSON = 1
# What open figures are saved as.
FIGURE = re.compile(r"figure_\d+\.png")
# The memory limit counts for each process, and so there may be fewer of them than of Python's threads.
SHELL, SHELL_TASKS = ("/bin/sh", "-c"), 16

log = get_logger()
# Of each event loop one: its waiting callers belong to it.
_pools: WeakKeyDictionary[AbstractEventLoop, FairPool] = WeakKeyDictionary()


class Request(Struct, frozen=True):
    """What to run; `is_shell` makes it a command line instead of Python."""

    code: str
    keeps_state: bool = False
    is_shell: bool = False


class _Outcome(Struct, frozen=True):
    ended: Ended
    output: str
    products: Made
    report: dict[str, list[str]]
    state: bytes | None
    # Who chose the names of the files that the code has read; None when it has read none, and no variables.
    authors: dict[str, Author] | None = None


async def execute(context: ToolContext, request: Request) -> dict[str, Any]:
    """Run the request, and return its output, its error and the files that it has made.

    Raises `ToolError` when nothing could be run.
    """
    settings = context.settings(CodeExecutorSettings)
    pool = _pools.setdefault(asyncio.get_running_loop(), FairPool(settings.runs, RUNS_OF_PERSON))
    async with pool.enter(context.user.id):
        # Of the places in the sandbox, code takes some: parsers need theirs for fractions of a second.
        outcome = await _run(context, request, settings)
        files, notes = await _store(context, request, outcome)
        result = _describe(outcome, context.app_settings.tool_result_max_chars // 2) | {"files": files, **notes}
        state = outcome.state if outcome.state and len(outcome.state) <= settings.state_mb * MEGABYTE else None
        if request.keeps_state and (outcome.state is None or "kept" not in outcome.report):
            result["variables"] = "None were kept: the run was ended before its end."
        elif request.keeps_state and outcome.state and state is None:
            reason = f"they take more than {settings.state_mb} MB"
            result["variables"] = f"None were kept: {reason}; delete what is not needed, with del."
        elif request.keeps_state:
            result["variables"] = outcome.report["kept"]
            result["variables_not_kept"] = outcome.report["left_out"]
        if files or state is not None:
            await update_workspace(context, [file["file_id"] for file in files], state)
    return {key: value for key, value in result.items() if value not in ([], None)}


async def _run(context: ToolContext, request: Request, settings: CodeExecutorSettings) -> _Outcome:
    workspace = await list_workspace(context)
    files = {file.filename: (await context.storage.read(file.file_id))[1] for file in workspace}
    state = (await read_workspace(context)).state if request.keeps_state else None
    has_input = bool(files or state)
    folder = await asyncio.to_thread(make_run_folder, settings.environment)
    try:
        before = await asyncio.to_thread(fill_folder, folder, files, state)
        loaded = sum(map(len, files.values())) + len(state or b"")
        limits = settings.limits._replace(
            folder_bytes=settings.limits.folder_bytes + loaded,
            folder_files=settings.limits.folder_files + len(files),
            tasks=SHELL_TASKS if request.is_shell else settings.limits.tasks,
        )
        job = Job(
            folder,
            limits,
            os.getpid(),
            command=SHELL if request.is_shell else None,
            keeps_state=request.keeps_state,
        )
        async with context.storage.enter_sandbox():
            ended = await run_confined(job, request.code, settings.python)
        output = await asyncio.to_thread(read_output, folder)
        if ended.status == NO_CONFINEMENT and not ended.has_entered:
            log.error("sandbox_not_entered", reason=output.strip())
            raise ToolError("The sandbox can't be entered here, so no code runs; the operator has to look at the log.")
        products = await asyncio.to_thread(read_made, folder, before, job.limits.folder_bytes)
        report, state = await asyncio.to_thread(_read_report, job, request)
        authors = {file.filename: file.author for file in workspace} if has_input else None
        return _Outcome(ended, output, products, report=report, state=state, authors=authors)
    finally:
        if not await asyncio.to_thread(remove, folder):
            log.warning("run_folder_left", folder=folder.name)


def _read_report(job: Job, request: Request) -> tuple[dict[str, list[str]], bytes | None]:
    # Written by the confined process, so by the code, if it wants: names at most.
    try:
        plain = json.loads(read_file(job.folder / REPORT, MEGABYTE) or b"{}")
        report = {key: [str(name)[:100] for name in plain[key][:50]] for key in ("kept", "left_out")}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}, None
    state = read_file(job.folder / STATE, job.limits.folder_bytes) if request.keeps_state else None
    return report, state or None


async def _store(
    context: ToolContext, request: Request, outcome: _Outcome
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    files, refusals = [], []
    for name, content in outcome.products.files.items():
        author = None
        # A name that the code does not spell may stand in what it has read; None: whoever wrote the code chose it.
        if outcome.authors is not None and name not in request.code and not FIGURE.fullmatch(name):
            author = outcome.authors.get(name, "stranger")
        try:
            file = await context.storage.create(name, content, author=author)
        except ToolError as error:
            refusals.append(f"{clean(name)}: {error}")
        else:
            files.append({**file.note, "file_id": file.file_id, "filename": file.filename, "url": file.url})
    more_files = [clean(name)[:100] for name in outcome.products.left_out[:20]]
    return files, {"files_not_stored": refusals, "more_files": more_files}


def _describe(outcome: _Outcome, limit: int) -> dict[str, Any]:
    output = clean(outcome.output).strip("\n")
    if len(output) > limit:
        # The end has the error, if there was one.
        left_out = f"\n… {len(output) - limit:,} characters left out …\n"
        output = output[: limit // 2] + left_out + output[-limit // 2 :]
    ended, error = outcome.ended, None
    if ended.stopped is not None:
        error = f"Stopped: {ended.stopped}."
    elif ended.status < 0:
        error = f"It was ended by the signal {signal.Signals(-ended.status).name}."
    elif ended.status:
        error = f"It ended with the exit status {ended.status}."
    return {"output": output, "error": error}
