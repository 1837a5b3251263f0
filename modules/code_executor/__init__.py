"""Tools that run code: small Python at once, real Python with numpy, pandas and matplotlib in a sandbox."""

import asyncio
from typing import Annotated, Any

from pydantic import Field

from modules.code_executor.execution import Request, execute
from modules.code_executor.settings import CodeExecutorSettings
from modules.code_executor.small_python import NotSmall, is_small, run_small
from modules.code_executor.workspaces import MAX_BYTES, list_workspace, read_workspace, update_workspace
from shared.errors import ToolError
from shared.messages import Permission
from shared.sandbox.job import MEGABYTE
from shared.sandbox.self_test import find_fault
from shared.settings import Settings
from shared.tools import ToolContext, tool

# Longer than the longest run, so that a call may wait for others.
SECONDS = 150

Code = Annotated[str, Field(min_length=1, max_length=100_000)]
Command = Annotated[str, Field(min_length=1, max_length=20_000)]


def needs_sandbox(settings: Settings) -> str | None:
    """Return why real Python is off: its environment is missing, or the sandbox has failed its test."""
    own = settings.of_module(CodeExecutorSettings, "code_executor")
    if not own.python.exists():
        return f"{own.python} is missing; `make run` makes it; elsewhere CODE_EXECUTOR_ENVIRONMENT names one"
    return find_fault(own.python, own.environment)


def needs_shell(settings: Settings) -> str | None:
    """Return why commands are off; they are unless somebody has switched them on."""
    if not settings.of_module(CodeExecutorSettings, "code_executor").shell:
        return "it is switched on by CODE_EXECUTOR_SHELL=true"
    return needs_sandbox(settings)


# `acts=False`: nothing leaves the sandbox but what the person is shown.
@tool(
    requires=Permission.USER,
    acts=False,
    timeout_seconds=SECONDS,
    reads_untrusted=True,
    reads_private=True,
    words=("Running a program", "Ran a program"),
)
async def run_python(context: ToolContext, code: Code, keep_state: bool = False) -> dict[str, Any]:
    """Run Python with numpy, pandas, matplotlib, without network. Files it writes and plots are sent with the reply.

    Loaded files are in the current folder. keep_state: use the variables of earlier runs, and keep them.

    Example: {"code": "print(sum(range(10)))"} -> 45
    """
    if not keep_state and is_small(code):
        try:
            async with context.storage.enter_sandbox():
                return {"output": (await run_small(code)).output.rstrip("\n")}
        except NotSmall as error:
            reason = str(error)
    else:
        reason = "it needs files, variables or libraries."
    fault = await asyncio.to_thread(needs_sandbox, context.app_settings)
    if fault is not None:
        raise ToolError(f"Only small code runs here, without files and libraries, and this failed: {reason}"[:500])
    return await execute(context, Request(code, keeps_state=keep_state))


@tool(
    requires=Permission.OWNER,
    timeout_seconds=SECONDS,
    reads_untrusted=True,
    reads_private=True,
    needs=needs_shell,
    words=("Running {command}", "Ran {command}"),
)
async def run_shell(context: ToolContext, command: Command) -> dict[str, Any]:
    """Run a shell command in the sandbox: the system's programs, without network. Files it writes are sent.

    Example: {"command": "echo ready"} -> ready
    """
    return await execute(context, Request(command, is_shell=True))


@tool(
    requires=Permission.USER,
    repeatable=True,
    acts=False,
    reads_private=True,
    needs=needs_sandbox,
    words=("Loading file {file_id} into the workspace", "Loaded file {file_id} into the workspace"),
)
async def load_file(context: ToolContext, file_id: int) -> dict[str, Any]:
    """Put one of the person's files into the folder that run_python works in.

    Example: {"file_id": 1} -> "filename": "notes.md"
    """
    file = await context.storage.link(file_id)
    if file.size_bytes > MAX_BYTES:
        raise ToolError(f"A file for code may have up to {MAX_BYTES // MEGABYTE} MB.")
    await update_workspace(context, [file.file_id])
    return {**file.note, "filename": file.filename, "size_bytes": file.size_bytes}


@tool(
    requires=Permission.USER,
    read_only=True,
    repeatable=True,
    reads_private=True,
    needs=needs_sandbox,
    words=("Looking at the workspace", "Looked at the workspace"),
)
async def list_files(context: ToolContext) -> dict[str, Any]:
    """List the files that run_python finds in its folder.

    Example: {} -> "files": [
    """
    files = await list_workspace(context)
    return {
        "files": [
            {**file.note, "file_id": file.file_id, "filename": file.filename, "size_bytes": file.size_bytes}
            for file in files
        ],
        "has_variables": (await read_workspace(context)).state is not None,
    }
