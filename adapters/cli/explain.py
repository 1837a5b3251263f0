"""`parley explain TURN`: everything about a turn, for operators."""

from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import say, show_table
from adapters.cli.opening import in_transaction
from shared.errors import Refusal

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from shared.settings import Settings

app = typer.Typer()
SHOWN_CHARS = 200

TURN = """
SELECT turns.*, personas.name AS persona, conversations.platform, conversations.platform_server_id AS server,
       conversations.platform_channel_id AS channel, conversations.platform_thread_id AS thread,
       users.permission_level, users.display_name,
       round(extract(epoch FROM coalesce(turns.finished_at, now()) - turns.started_at)::numeric, 2) AS seconds
FROM turns JOIN conversations ON conversations.id = turns.conversation_id
LEFT JOIN users ON users.id = turns.user_id LEFT JOIN personas ON personas.id = turns.persona_id
WHERE turns.id = :id
"""
PARTS = {
    "inbox": """
        SELECT id, door, platform_username AS speaker, platform_event_id AS event, status, sent_at,
               round(extract(epoch FROM created_at - sent_at)::numeric, 2) AS "late s",
               jsonb_array_length(attachments) AS files
        FROM inbox WHERE turn_id = :id ORDER BY sent_at, id""",
    "steps": """
        SELECT seq, role, tool_name AS tool, coalesce(plan::text, content) AS content, token_count AS tokens
        FROM messages WHERE turn_id = :id ORDER BY seq""",
    "long results": """
        SELECT seq, tool_name AS tool, length(messages.content) AS "characters shown",
               length(full_results.content) AS "characters kept", full_results.content AS "as it came"
        FROM full_results JOIN messages USING (turn_id, seq) WHERE turn_id = :id ORDER BY seq""",
    "prompt": """
        SELECT part.key AS part, part.value AS shown FROM turn_contexts, jsonb_each_text(reasons) AS part
        WHERE turn_id = :id ORDER BY part.key""",
    "recalled": """
        SELECT recalled.id AS memory, recalled.score, recalled.scope FROM turn_contexts,
            jsonb_to_recordset(reasons -> 'memories') AS recalled (id bigint, score numeric, scope text)
        WHERE turn_id = :id ORDER BY recalled.score DESC""",
    "agents": """
        WITH RECURSIVE below AS (
            SELECT id FROM turns WHERE parent_turn_id = :id
            UNION ALL SELECT asked.id FROM turns AS asked JOIN below ON asked.parent_turn_id = below.id
        )
        SELECT turns.id AS turn, parent_turn_id AS "asked by", agent, status, error, iterations AS calls,
               (SELECT sum(input_tokens + output_tokens) FROM token_logs WHERE turn_id = turns.id) AS tokens,
               round(extract(epoch FROM coalesce(finished_at, now()) - started_at)::numeric, 2) AS s,
               (SELECT content FROM messages WHERE turn_id = turns.id AND seq = 0) AS task,
               (SELECT content FROM messages WHERE turn_id = turns.id AND role = 'assistant'
                ORDER BY seq DESC LIMIT 1) AS result
        FROM below JOIN turns USING (id) ORDER BY turns.id""",
    "model calls": """
        SELECT created_at AS at, purpose, model, input_tokens AS input, cached_tokens AS cached,
               output_tokens AS output, coalesce(cost_estimate::text, 'unknown') AS "cost $", is_estimated AS estimated
        FROM token_logs WHERE turn_id = :id ORDER BY id""",
    "confirmations": """
        SELECT id, tool, reason, status, turn_id AS asked, answered_turn_id AS answered, expires_at AS until, question
        FROM confirmations WHERE turn_id = :id OR answered_turn_id = :id ORDER BY id""",
    "held budget": "SELECT tokens, expires_at FROM budget_reservations WHERE turn_id = :id",
    "files": """
        SELECT id, filename, mime_type, size_bytes AS bytes, status
        FROM file_records WHERE turn_id = :id ORDER BY id""",
    "delivery": """
        SELECT id, door, status, attempts, delivered_at, platform_message_id AS "message id", error, content
        FROM outbox WHERE turn_id = :id""",
}


@app.command("explain")
def explain_turn(
    turn: int = typer.Argument(metavar="TURN", min=1, max=2**63 - 1, help="The turn's number."),
    full: bool = typer.Option(False, "--full", help="Show every text whole."),
) -> None:
    """Tell all about a turn: status, messages, tool calls, model calls with cost, delivery."""

    async def work(session: "AsyncSession", _settings: "Settings") -> tuple[Any, dict[str, list[Any]]]:
        from sqlalchemy import text

        found = (await session.execute(text(TURN), {"id": turn})).one_or_none()
        if found is None:
            last = await session.scalar(text("SELECT max(id) FROM turns"))
            raise Refusal(f"There is no turn {turn}; {f'the last one is {last}' if last else 'there is none yet'}.")
        parts = {name: list((await session.execute(text(query), {"id": turn})).all()) for name, query in PARTS.items()}
        return found, parts

    found, parts = in_transaction(work)
    _show_turn(found)
    for name, rows in parts.items():
        say(f"\n{name}{'' if rows else ': none'}")
        if rows:
            show_table(rows[0]._fields, [[_cell(value, full) for value in row] for row in rows])


def _show_turn(turn: Any) -> None:
    place = " / ".join(part for part in (turn.platform, turn.server, turn.channel, turn.thread) if part)
    takeovers = f", attempt {turn.attempt}" if turn.attempt > 1 else ""
    say(f"turn          {turn.id}: {turn.status}{takeovers}, {turn.seconds} s")
    say(f"place         {place} (conversation {turn.conversation_id})")
    say(f"user          {turn.user_id or 'deleted'}, {turn.permission_level or 'no permission'}")
    if turn.parent_turn_id:
        say(f"agent         {turn.agent}, asked in turn {turn.parent_turn_id} by the call {turn.parent_call_id}")
    say(f"persona       {turn.persona or 'built-in'}")
    say(f"model         {turn.model or 'none answered'}, {turn.iterations} calls")
    say(f"mode          {turn.loop_mode}, waves of tools: {turn.waves}")
    say(f"started       {turn.started_at:%Y-%m-%d %H:%M:%S %Z}")
    if turn.finished is False:
        say("complete      no: the answer was given before the work was done")
    if turn.error or turn.cause:
        say(f"error         {turn.error or '-'}: {turn.cause or 'no cause noted'}")
    if turn.stop_requested:
        say("stop          asked for by the person")


def _cell(value: Any, full: bool) -> str:
    if value is None:
        return ""
    if hasattr(value, "strftime"):
        return f"{value:%H:%M:%S}"
    shown = str(value)
    return shown if full or len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}… ({len(shown):,} characters)"
