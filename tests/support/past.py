"""A past: rows of turns that ended long ago, written by SQL, as the agent would have left them."""

from typing import Any

from shared.db.database import Address
from tests.support.connections import connected, run_as_owner

# One statement per table; $1: how many turns, $2: over how many days they are spread, $3: how many days ago they end.
WRITE = (
    """
    CREATE TEMP TABLE past ON COMMIT DROP AS
    SELECT number, nextval(pg_get_serial_sequence('turns', 'id')) AS id,
           now() - interval '1 day' * ($3::int + $2::int * (1 - number::float / $1::int)) AS began
    FROM generate_series(1, $1::int) AS number ORDER BY number
    """,
    "INSERT INTO users (display_name) VALUES ('Ann')",
    "INSERT INTO conversations (platform, platform_channel_id) SELECT 'past', gen_random_uuid()::text",
    """
    INSERT INTO turns (id, conversation_id, user_id, status, iterations, waves, finished, model, started_at,
                       finished_at, created_at)
    OVERRIDING SYSTEM VALUE
    SELECT past.id, (SELECT max(id) FROM conversations), (SELECT max(id) FROM users),
           CASE WHEN number % 50 = 0 THEN 'failed' ELSE 'answered' END, 2, 1, number % 50 <> 0, 'openai/stub', began,
           began + interval '2 seconds', began
    FROM past ORDER BY number
    """,
    """
    INSERT INTO inbox (adapter, platform, platform_event_id, place_key, platform_channel_id, platform_user_id, content,
                       sent_at, created_at, status, turn_id)
    SELECT 'past', 'past', 'past-' || id, 'past-' || number % 1000, 'c', 'ann', repeat('What is the weather? ', 10),
           began, began, 'answered', id
    FROM past ORDER BY number
    """,
    """
    INSERT INTO outbox (turn_id, adapter, platform, platform_channel_id, content, status, attempts, delivered_at,
                        created_at)
    SELECT id, 'past', 'past', 'c', repeat('It will be sunny. ', 20), 'delivered', 1, began, began
    FROM past ORDER BY number
    """,
    """
    INSERT INTO turn_events (turn_id, seq, name, payload, created_at)
    SELECT id, seq, 'tool_result', jsonb_build_object('content', repeat('sunny ', 20)), began
    FROM past, generate_series(0, 3) AS seq ORDER BY number, seq
    """,
    """
    INSERT INTO messages (conversation_id, turn_id, seq, role, content, created_at)
    SELECT (SELECT max(id) FROM conversations), id, seq, CASE seq WHEN 0 THEN 'user' ELSE 'assistant' END,
           repeat('It will be sunny. ', 10), began
    FROM past, generate_series(0, 1) AS seq ORDER BY number, seq
    """,
    """
    INSERT INTO token_logs (turn_id, user_id, purpose, model, input_tokens, output_tokens, cost_estimate, created_at)
    SELECT id, (SELECT max(id) FROM users), 'answer', 'openai/stub', 100, 10, 0.001, began
    FROM past, generate_series(1, 2) ORDER BY number
    """,
    """
    INSERT INTO confirmations (user_id, conversation_id, turn_id, call_id, tool, arguments, arguments_hash, question,
                               reason, status, expires_at, created_at)
    SELECT (SELECT max(id) FROM users), (SELECT max(id) FROM conversations), id, 'call', 'a.b', '{}',
           encode(sha256('{}'), 'hex'), 'Really?', 'tool', 'expired', began + interval '10 minutes', began
    FROM past WHERE number % 20 = 0 ORDER BY number
    """,
)


EXPIRING = ("inbox", "outbox", "turn_events", "token_logs")


async def write_past(address: Address, *, turns: int, days: int, until: int = 0) -> None:
    """Write this many turns of so many days, which ended `until` days ago."""
    async with connected(address) as owner:
        async with owner.transaction():
            for statement in WRITE:
                parameters = [turns, days, until] if "$2" in statement else []
                await owner.execute(statement, *parameters)
        await owner.execute("ANALYZE")


async def count_rows(address: Address, *tables: str) -> dict[str, Any]:
    """Return the number of rows by table."""
    async with connected(address) as owner:
        return {table: await owner.fetchval(f"SELECT count(*) FROM {table}") for table in tables}  # noqa: S608  # our own names


async def age(address: Address, days: int) -> None:
    """Make all rows that can expire this many days old."""
    past = f"now() - {days} * interval '1 day'"
    await run_as_owner(address, *(f"UPDATE {table} SET created_at = {past}" for table in EXPIRING))  # noqa: S608  # our own names
