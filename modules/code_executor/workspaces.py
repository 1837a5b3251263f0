"""What code finds from earlier runs: the files and variables of one person in one conversation."""

from collections.abc import Sequence

from msgspec import Struct

from shared.db.statements import load_statements
from shared.errors import ToolError
from shared.files.stored_file import StoredFile
from shared.sandbox.job import MEGABYTE
from shared.tools import ToolContext

statements = load_statements(__file__)

MAX_FILES = 20
MAX_BYTES = 64 * MEGABYTE


class Found(Struct, frozen=True):
    """A workspace as it was read; `state` are the pickled variables."""

    file_ids: tuple[int, ...] = ()
    state: bytes | None = None


async def read_workspace(context: ToolContext) -> Found:
    """Return the person's workspace in this conversation, an empty one when there is none."""
    parameters = {"user_id": context.user.id, "conversation_id": context.conversation_id}
    async with context.transaction() as session:
        row = (await session.execute(statements.find_workspace, parameters)).one_or_none()
    return Found() if row is None else Found(tuple(row.file_ids), row.state)


async def update_workspace(context: ToolContext, file_ids: Sequence[int], state: bytes | None = None) -> None:
    """Add files, and replace the variables unless `state` is None; of more than `MAX_FILES` the newest stay."""
    parameters = {"user_id": context.user.id, "conversation_id": context.conversation_id}
    async with context.transaction() as session:
        await session.execute(statements.forget_workspaces)
        await session.execute(statements.make_workspace, parameters)
        workspace = (await session.execute(statements.lock_workspace, parameters)).one_or_none()
        if workspace is None:
            return
        others = [file_id_ for file_id_ in workspace.file_ids if file_id_ not in file_ids]
        newest = [*others, *file_ids][-MAX_FILES:]
        await session.execute(statements.update_workspace, {"id": workspace.id, "file_ids": newest, "state": state})


async def list_workspace(context: ToolContext) -> list[StoredFile]:
    """Return the files that the next run finds, the oldest first; of the same name the newest."""
    files: dict[str, StoredFile] = {}
    size = 0
    for file_id in reversed((await read_workspace(context)).file_ids):
        try:
            file = await context.storage.link(file_id)
        except ToolError:
            # Deleted since, or not to be seen in this place.
            continue
        if file.filename not in files and size + file.size_bytes <= MAX_BYTES:
            size += file.size_bytes
            files[file.filename] = file
    return list(reversed(files.values()))
