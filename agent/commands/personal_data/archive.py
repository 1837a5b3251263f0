"""The archive that a person takes along: everything that is kept about them, as one file of theirs."""

import json

from agent.commands.personal_data.export import export_person
from shared.clock import Clock
from shared.db.database import Database
from shared.errors import Refusal
from shared.files.storage import Storage, StoredFile

# People may have files of the same name; only what begins so is replaced by a newer archive.
PREFIX, TYPE = "parley-archive-", "application/json"


async def store_archive(database: Database, storage: Storage, user_id: int, clock: Clock) -> StoredFile:
    """Store the archive of this person in the place of an earlier one, and return it with a link that expires.

    Raises `ToolError` when their files take up too much room, `Unavailable` when storage can't be reached.
    """
    files = storage.of_user(database, user_id, None)
    for file in await files.list():
        if file.filename.startswith(PREFIX) and file.mime_type == TYPE:
            await files.delete(file.file_id)
    async with database.transaction() as session:
        export = await export_person(session, storage, user_id)
    if export is None:
        raise Refusal("Nothing is kept about you.")
    content = json.dumps(export, default=str, ensure_ascii=False, indent=1).encode()
    return await files.create(f"{PREFIX}{clock.now():%Y-%m-%d}.json", content, TYPE)
