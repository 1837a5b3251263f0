"""Redaction: removes a message that was deleted on its platform, with its files and the quotes of it.

A message that still waits for a turn is cancelled. Memories of a deleted message, facts drawn from it included, are
removed, as is what it asked to remember; summaries that were made of it are withdrawn and written again. The answer
stays, which others have read; one that is still being written is stopped and withdrawn.
"""

import asyncio
import json
from collections.abc import Collection
from typing import Any

from msgspec import Struct, field

from agent.journal.files import PendingFile, with_file_lines
from agent.journal.quotes import with_earlier
from agent.memory.deletion import DELETED, forget_turns
from agent.memory.recordings import list_transcripts
from agent.memory.summaries.claims import forget_summaries
from agent.queue.edits import lock_turns
from shared.db.driver import Session
from shared.db.single import LongWork
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.files.stores.store import Eraser
from shared.log import get_logger
from shared.messages import Attachment, PlatformContext

statements = load_statements(__file__)

# A turn that was just beginning may have read the old text, so the redaction runs again after this time.
LOOK_AGAIN_SECONDS = 2.0
# Shorter texts may occur in a tool's arguments by chance.
LEAST_REPEATED = 8


log = get_logger()


class _Found(Struct):
    # Counts of deleted and of quoting messages, keys of files to delete; `is_waiting`: a quoting message still waits.
    own: int = 0
    quoting: int = 0
    keys: list[str] = field(default_factory=list)
    is_waiting: bool = False


class _Gone(Struct, frozen=True):
    # Messages that are removed; `is_author_gone`: nothing may say whose they were.
    platform: str
    message_ids: Collection[str]
    is_author_gone: bool

    def redacted(self, quote: dict[str, Any]) -> dict[str, Any]:
        if self.is_author_gone:
            return {"speaker": "somebody", "text": DELETED, "message_id": quote["message_id"]}
        return quote | {"text": DELETED}


async def redact(
    database: LongWork,
    storage: Eraser,
    *,
    platform: str,
    message_ids: Collection[str],
    is_author_gone: bool = False,
) -> int:
    """Remove messages that were deleted on their platform, and return how many were stored.

    Files that storage fails to delete are logged.

    With `is_author_gone`, quotes of them do not say any more whose they were.
    """
    deletion = _Gone(platform, message_ids, is_author_gone)
    async with database.transaction() as session:
        result = await _redact(session, deletion)
    if result.is_waiting:
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        async with database.transaction() as session:
            await _redact(session, deletion)
    for key in result.keys:
        try:
            await storage.delete(key)
        except Unavailable as error:
            log.error("deleted_file_left_in_storage", key=key, cause=str(error))
    if result.own or result.quoting:
        log.info(
            "messages_redacted", platform=platform, messages=result.own, quotes=result.quoting, files=len(result.keys)
        )
    return result.own


async def _redact(session: Session, deletion: _Gone) -> _Found:
    platform, message_ids = deletion.platform, deletion.message_ids
    parameters = {"platform": platform, "message_ids": list(message_ids)}
    await lock_turns(session, platform, message_ids)
    own = (await session.execute(statements.lock_messages, parameters)).all()
    quoting = (await session.execute(statements.lock_quoting_messages, parameters)).all()
    result = _Found(len(own), len(quoting), is_waiting=any(row.status == "waiting" for row in quoting))
    own_ids = {row.id for row in own}
    for turn_id in sorted({row.turn_id for row in (*own, *quoting) if row.turn_id is not None}):
        result.keys += await _rebuild_message(session, turn_id, own_ids=own_ids, deletion=deletion)
    for row in own:
        await _remove_repeated(session, row)
    expired = {row.turn_id for row in (await session.execute(statements.list_expired_turns, parameters)).all()} - {
        row.turn_id for row in own
    }
    for turn_id in sorted(expired):
        result.keys += await _remove_expired(session, turn_id, deletion)
    await forget_summaries(session, {row.turn_id for row in (*own, *quoting)} | expired)
    if own_ids:
        await session.execute(statements.remove_messages, {"ids": list(own_ids), "deleted": DELETED})
        turn_ids = [row.turn_id for row in own if row.turn_id is not None]
        await session.execute(statements.stop_turns, {"turn_ids": turn_ids, "deleted": DELETED})
        await session.execute(statements.withdraw_questions, {"turn_ids": turn_ids})
    if own_ids or expired:
        forgotten = {row.turn_id for row in own} | expired
        await forget_turns(session, platform=platform, message_ids=message_ids, turn_ids=forgotten)
    for row in quoting:
        if row.id not in own_ids:
            platform_context = json.dumps(_without(row.platform_context, deletion))
            await session.execute(statements.store_context, {"id": row.id, "platform_context": platform_context})
    return result


async def _remove_expired(session: Session, turn_id: int, deletion: _Gone) -> list[str]:
    """Remove a turn's user message that the inbox does not have any more; return the storage keys of its files."""
    files = (await session.execute(statements.list_files_of_expired_turn, {"turn_id": turn_id})).all()
    keys = await _rebuild_message(session, turn_id, own_ids=set(), deletion=deletion)
    if files:
        await session.execute(statements.remove_files, {"ids": [file.id for file in files]})
    return [*keys, *(file.minio_key for file in files)]


async def _rebuild_message(session: Session, turn_id: int, own_ids: set[int], deletion: _Gone) -> list[str]:
    """Rebuild the user message of a turn; return the storage keys of the deleted messages' files."""
    rows = (await session.execute(statements.list_messages, {"turn_id": turn_id})).all()
    # File records have the order in which the turn read the messages.
    parameters = {"turn_id": turn_id, "count": sum(len(row.attachments) for row in rows)}
    records = iter((await session.execute(statements.list_files, parameters)).all())
    pairs = {row.id: list(zip(row.attachments, records, strict=False)) for row in rows}
    files = {
        inbox_id: [PendingFile(record.id, record.minio_key, Attachment(**file)) for file, record in attachments]
        for inbox_id, attachments in pairs.items()
    }
    other_rows = [row for row in rows if row.id not in own_ids]
    text_left = "\n".join(row.content for row in other_rows) or DELETED
    earlier = [
        line
        for row in other_rows
        for line in PlatformContext.from_row(_without(row.platform_context, deletion)).earlier
    ]
    other_files = [file for row in other_rows for file in files[row.id]]
    content = with_earlier(with_file_lines(text_left, other_files), earlier)
    # The transcripts of these files as they stand in the turn's message, before any file record is removed.
    said = (await session.execute(statements.list_files_said, {"turn_id": turn_id})).all()
    transcripts = list_transcripts(said[0].content if said else "", [(row.file_id, row.filename) for row in said])
    other_ids = {file.file_id for file in other_files}
    blocks = [transcript.block for transcript in transcripts if transcript.file_id in other_ids]
    content = "\n\n".join([content, *blocks])
    await session.execute(statements.rebuild_message, {"turn_id": turn_id, "content": content})
    lost = [file for row in rows if row.id in own_ids for file in files[row.id]]
    if lost:
        await session.execute(statements.remove_files, {"ids": [file.file_id for file in lost]})
    return [file.key for file in lost]


async def _remove_repeated(session: Session, row: Any) -> None:
    said = row.content.strip()
    repeated = json.dumps(said, ensure_ascii=False)[1:-1]
    if row.turn_id is not None and len(repeated) >= LEAST_REPEATED and row.content != DELETED:
        parameters = {"turn_id": row.turn_id, "said": said, "repeated": repeated, "deleted": DELETED}
        await session.execute(statements.remove_repeated_text, parameters)


def _without(platform_context: dict[str, Any], deletion: _Gone) -> dict[str, Any]:
    lines = platform_context.get("earlier", ())
    redacted = [deletion.redacted(line) if line.get("message_id") in deletion.message_ids else line for line in lines]
    return platform_context | {"earlier": redacted} if redacted else platform_context
