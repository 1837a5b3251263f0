"""Months of turns for `tests.bench.growth`: rows as turns leave them, written by SQL in bulk."""

import asyncpg

PEOPLE = 2_000
# Of a hundred turns, one is this person's: at a million turns, ten thousand.
BUSY = 1
DAYS = 30

PEOPLE_OF_THE_PAST = """
INSERT INTO users (display_name) SELECT 'Person ' || number FROM generate_series(1, $1::int) AS number;
"""
LINKS = """
INSERT INTO user_platform_links (user_id, platform, platform_user_id)
SELECT id, 'past', 'person-' || id FROM users
"""
PLACES = """
INSERT INTO conversations (platform, platform_channel_id, is_direct, user_id, summary_due_at)
SELECT 'past', 'dm-' || id, true, id, NULL FROM users ORDER BY id
"""
# $1: how many turns, $2: how many days ago they end.
TURNS = """
CREATE TEMP TABLE past AS
SELECT number, nextval(pg_get_serial_sequence('turns', 'id')) AS id,
       CASE number % 100 WHEN 0 THEN (SELECT min(id) FROM users) ELSE (SELECT min(id) FROM users) + number % $3::int END
           AS user_id,
       now() - interval '1 day' * ($2::int + 30 * (1 - number::float / $1::int)) AS began
FROM generate_series(1, $1::int) AS number ORDER BY number
"""
ROWS = (
    "CREATE TEMP TABLE place AS SELECT user_id, id FROM conversations WHERE platform = 'past'",
    "ANALYZE past, place",
    """
    INSERT INTO turns (id, conversation_id, user_id, status, iterations, finished, model, started_at, finished_at,
                       created_at)
    SELECT past.id, place.id, user_id, 'answered', 1, true, 'openai/stub', began, began + interval '2 seconds', began
    FROM past JOIN place USING (user_id) ORDER BY number
    """,
    """
    INSERT INTO inbox (adapter, platform, platform_event_id, place_key, platform_channel_id, is_direct,
                       platform_user_id, platform_username, content, sent_at, created_at, status, turn_id)
    SELECT 'http', 'past', gen_random_uuid()::text, 'past dm-' || user_id, 'dm-' || user_id, true,
           'person-' || user_id, 'Person', repeat('What is the weather? ', 10), began, began, 'answered', id
    FROM past ORDER BY number
    """,
    """
    INSERT INTO outbox (turn_id, adapter, platform, platform_channel_id, is_direct, reply_to, content, status,
                        platform_message_id, delivered_at, place_key, created_at)
    SELECT id, 'http', 'past', 'dm-' || user_id, true, gen_random_uuid()::text, repeat('It will be sunny. ', 20),
           'delivered', gen_random_uuid()::text, began, 'past dm-' || user_id, began
    FROM past ORDER BY number
    """,
    """
    INSERT INTO turn_events (turn_id, seq, name, payload, created_at)
    SELECT id, seq, (ARRAY['user_message', 'turn_started', 'message', 'turn_complete'])[seq + 1],
           CASE WHEN seq IN (0, 2) THEN jsonb_build_object('content', repeat('It will be sunny. ', 10 + 5 * seq))
                WHEN seq = 3 THEN jsonb_build_object('iterations', 1, 'usage', jsonb_build_object('total', 100))
                ELSE '{}' END, began
    FROM past, generate_series(0, 3) AS seq ORDER BY number, seq
    """,
    """
    INSERT INTO messages (conversation_id, turn_id, seq, user_id, role, content, token_count, created_at)
    SELECT place.id, past.id, seq, user_id, CASE seq WHEN 0 THEN 'user' ELSE 'assistant' END,
           repeat('It will be sunny. ', 10 + 10 * seq), 20, began
    FROM past JOIN place USING (user_id), generate_series(0, 1) AS seq ORDER BY number, seq
    """,
    """
    INSERT INTO turn_contexts (turn_id, reasons, created_at)
    SELECT id, jsonb_build_object('persona', 'default', 'offered', ARRAY(
               SELECT 'module.tool_' || n || '_' || id FROM generate_series(1, 20) AS n)), began
    FROM past ORDER BY number
    """,
    """
    INSERT INTO token_logs (turn_id, user_id, conversation_id, reservation_id, model, input_tokens, output_tokens,
                            cost_estimate, created_at)
    SELECT past.id, user_id, place.id, nextval(pg_get_serial_sequence('budget_reservations', 'id')), 'openai/stub',
           100, 10, 0.001, began
    FROM past JOIN place USING (user_id) ORDER BY number
    """,
    """
    UPDATE counted_rows SET last_id = CASE table_name
        WHEN 'turns' THEN (SELECT max(id) FROM turns) WHEN 'messages' THEN (SELECT max(id) FROM messages)
        ELSE (SELECT max(id) FROM token_logs) END
    """,
    "DROP TABLE past, place",
)


async def write_people(owner: asyncpg.Connection) -> None:
    """Store the people, their accounts, and a place for each."""
    await owner.execute(PEOPLE_OF_THE_PAST.strip().rstrip(";"), PEOPLE)
    await owner.execute(LINKS)
    await owner.execute(PLACES)


async def write_month(owner: asyncpg.Connection, turns: int, days_ago: int) -> None:
    """Write this many turns of thirty days, which ended so many days ago.

    Without triggers and foreign keys, whose checks would take most of the time.
    """
    await owner.execute("SET session_replication_role = replica")
    await owner.execute(TURNS, turns, days_ago, PEOPLE)
    for statement in ROWS:
        await owner.execute(statement)
    await owner.execute("RESET session_replication_role")
