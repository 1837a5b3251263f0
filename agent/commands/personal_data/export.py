"""Everything that is kept about a person, as one value that can be written as JSON, and as a file of theirs."""

import json
from typing import Any

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from shared.clock import Clock
from shared.db.database import Database
from shared.errors import Refusal
from shared.files.storage import Storage
from shared.files.stored_file import StoredFile
from shared.memory.visibility import act_for

# People may have files of the same name; only what begins so is replaced by a newer archive.
ARCHIVE_PREFIX, ARCHIVE_TYPE = "parley-archive-", "application/json"

PROFILE = text("""
SELECT id, display_name,
       parley_permission(permission_level, permission_until, permission_after) AS permission_level,
       token_budget_monthly, tokens_used_this_month, budget_reset_at, time_zone, week_start,
       is_memory_paused, created_at
FROM users WHERE id = :user_id
""")
LISTS = {
    "accounts": text("""
SELECT platform, platform_user_id, platform_username, created_at FROM user_platform_links
WHERE user_id = :user_id ORDER BY id
"""),
    "memories": text("""
SELECT id, scope, source, content, speaker, is_from_bot, said_at, platform, platform_server_id, conversation_id,
       confidence, superseded_by
FROM memories WHERE user_id = :user_id ORDER BY id
"""),
    "conversations": text("""
SELECT id, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct, started_at, summary
FROM conversations WHERE is_direct AND user_id = :user_id ORDER BY id
"""),
    "messages": text("""
SELECT m.turn_id, m.conversation_id, m.role, m.speaker, m.content, m.created_at
FROM messages AS m JOIN turns AS t ON t.id = m.turn_id
WHERE t.user_id = :user_id AND m.role IN ('user', 'assistant') ORDER BY m.id
"""),
    # What no turn has answered, because it waits, was cancelled or came during a pause.
    "unanswered_messages": text("""
SELECT i.platform, i.platform_server_id, i.platform_channel_id, i.content, i.sent_at, i.status
FROM inbox AS i JOIN user_platform_links AS l USING (platform, platform_user_id)
WHERE l.user_id = :user_id AND i.turn_id IS NULL ORDER BY i.id
"""),
    "confirmations": text("""
SELECT turn_id, tool, arguments, question, reason, status, created_at, answered_at FROM confirmations
WHERE user_id = :user_id ORDER BY id
"""),
    "roles": text("SELECT platform, server, roles FROM member_roles WHERE user_id = :user_id ORDER BY id"),
    "limits": text("""
SELECT period, token_limit, cost_limit, tokens_used, cost_used, resets_at FROM budgets
WHERE user_id = :user_id ORDER BY id
"""),
    "requests_for_more": text("""
SELECT status, tokens, cost, ends_at, created_at, decided_at FROM budget_grants
WHERE asked_by_id = :user_id OR limit_user_id = :user_id ORDER BY id
"""),
    "feedback": text("SELECT turn_id, score, created_at FROM feedback WHERE user_id = :user_id ORDER BY id"),
    "scheduled_jobs": text("""
SELECT id, conversation_id, action, content, kind, time_zone, starts_at, every, unit, cron, check_tool, check_arguments,
       condition, status, next_due_at, last_due_at, runs, created_at
FROM scheduled_jobs WHERE user_id = :user_id ORDER BY id
"""),
    # The credentials themselves stay here: whoever gets hold of the archive could use them.
    "credentials": text("SELECT name, created_at FROM credentials WHERE user_id = :user_id ORDER BY name"),
    "usage": text("""
SELECT purpose, model, count(*) AS calls, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM token_logs WHERE user_id = :user_id GROUP BY purpose, model ORDER BY purpose, model
"""),
}
# What modules keep, as their functions `parley_export_in_…` return it.
OF_MODULES = text("SELECT parley_export_in_modules(:user_id) AS entries").columns(entries=JSONB)
FILES = text("""
SELECT id, filename, mime_type, size_bytes, status, created_at FROM file_records WHERE user_id = :user_id ORDER BY id
""")


async def export_person(session: AsyncSession, storage: Storage, user_id: int) -> dict[str, Any] | None:
    """Return all rows about this person; files come as signed links that expire. None if there is no such person."""
    profile = (await session.execute(PROFILE, {"user_id": user_id})).mappings().one_or_none()
    if profile is None:
        return None
    await act_for(session, user_id)
    export: dict[str, Any] = {"profile": dict(profile)}
    for name, statement in LISTS.items():
        rows = await session.execute(statement, {"user_id": user_id})
        export[name] = [dict(row) for row in rows.mappings()]
    export |= (await session.execute(OF_MODULES, {"user_id": user_id})).scalar_one()
    files = (await session.execute(FILES, {"user_id": user_id})).mappings()
    export["files"] = [dict(row) | {"url": storage.sign(row["id"])} for row in files]
    return export


async def store_archive(database: Database, storage: Storage, user_id: int, clock: Clock) -> StoredFile:
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
