"""Everything that is kept about a person, as one value that can be written as JSON, and as a file of theirs."""

import json
from typing import TYPE_CHECKING, Any

from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.memory.visibility import act_for

if TYPE_CHECKING:
    from shared.clock import Clock
    from shared.db.database import Database
    from shared.db.driver import Session
    from shared.files.storage import Storage
    from shared.files.stored_file import FileLinks, StoredFile

statements = load_statements(__file__)

# People may have files of the same name; only what begins so is replaced by a newer archive.
ARCHIVE_PREFIX, ARCHIVE_TYPE = "parley-archive-", "application/json"

LISTS = {
    "accounts": statements.export_accounts,
    "memories": statements.export_memories,
    "conversations": statements.export_conversations,
    "messages": statements.export_messages,
    "unanswered_messages": statements.export_unanswered_messages,
    "confirmations": statements.export_confirmations,
    "roles": statements.export_roles,
    "limits": statements.export_limits,
    "requests_for_more": statements.export_requests_for_more,
    "feedback": statements.export_feedback,
    "scheduled_jobs": statements.export_scheduled_jobs,
    "credentials": statements.export_credentials,
    "usage": statements.export_usage,
}


async def export_person(session: "Session", links: "FileLinks", user_id: int) -> dict[str, Any] | None:
    """Return all rows about this person; files come as signed links that expire. None if there is no such person."""
    profile = (await session.execute(statements.export_profile, {"user_id": user_id})).one_or_none()
    if profile is None:
        return None
    await act_for(session, user_id)
    export: dict[str, Any] = {"profile": to_fields(profile)}
    for name, statement in LISTS.items():
        rows = (await session.execute(statement, {"user_id": user_id})).all()
        export[name] = [to_fields(row) for row in rows]
    export |= (await session.execute(statements.export_modules, {"user_id": user_id})).scalar_one()
    files = (await session.execute(statements.export_files, {"user_id": user_id})).all()
    export["files"] = [to_fields(row) | {"url": links.sign(row.id)} for row in files]
    return export


def to_fields(row: Any) -> dict[str, Any]:
    """Return the columns of a row by name: of the driver's, or of SQLAlchemy's sessions."""
    return dict(getattr(row, "_mapping", row))


async def store_archive(database: "Database", storage: "Storage", user_id: int, clock: "Clock") -> "StoredFile":
    """Store the archive of this person in the place of an earlier one, and return it with a link that expires.

    Raises `ToolError` when their files take up too much room, `Unavailable` when storage can't be reached.
    """
    files = storage.of_user(database, user_id, None)
    for file in await files.list():
        if file.filename.startswith(ARCHIVE_PREFIX) and file.mime_type == ARCHIVE_TYPE:
            await files.delete(file.file_id)
    async with database.transaction() as session:
        export = await export_person(session, storage, user_id)
    if export is None:
        raise Refusal("Nothing is kept about you.")
    content = json.dumps(export, default=str, ensure_ascii=False, indent=1).encode()
    return await files.create(f"{ARCHIVE_PREFIX}{clock.now():%Y-%m-%d}.json", content, ARCHIVE_TYPE)
