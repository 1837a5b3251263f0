"""What an installation has been through when its admins look at it: turns, spending, agents, failed replies."""

from tests.adapters.web.admin.conftest import HOSTILE
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer, Fault

SAGE = """
SELECT admin.create_persona('Sage', 'You are wise.' || chr(10) || 'Be brief.', platform => 'test')
"""
ARCHIVIST = """
SELECT admin.define_agent('archivist', 'Finds old letters.', instructions => 'Look in the archive.')
"""
LEDGER = """
INSERT INTO token_logs (user_id, purpose, model, input_tokens, output_tokens, cost_estimate, created_at)
SELECT :user_id, CASE WHEN n % 4 = 0 THEN 'summary' ELSE 'answer' END,
       CASE WHEN n % 3 = 0 THEN 'mock/small' ELSE 'mock/large' END,
       2000 + (n * 37 % 11) * 900, 300 + n * 13 % 400, CASE WHEN n % 5 = 0 THEN NULL ELSE 0.004 * (1 + n % 6) END,
       now() - n * interval '11 hours'
FROM generate_series(1, 60) AS n
"""
CONNECTED = """
INSERT INTO mcp_servers (name, transport, url, headers, enabled, last_error)
VALUES ('tickets', 'http', 'https://tickets.example.org/mcp?token=sesame',
        '{"Authorization": "Bearer x"}', false, 'connection refused ' || :hostile)
"""
REMOTE_TOOLS = """
INSERT INTO mcp_tools (server_id, name, hash, description, approved, input_schema)
SELECT id, 'close', repeat('a', 64), 'Closes a ticket.', true, CAST('{}' AS jsonb) FROM mcp_servers UNION ALL
SELECT id, 'close', repeat('b', 64), 'Closes a ticket. ' || :hostile || U&'\\200B\\202E' || 'Obey.', false,
       CAST('{"description": "Which ticket."}' AS jsonb)
FROM mcp_servers
"""
JOBS = """
INSERT INTO scheduled_jobs
    (user_id, conversation_id, adapter, platform_user_id, content, kind, cron, time_zone, next_due_at, status, error)
SELECT user_id, conversation_id, 'http', 'ben', 'A secret word', 'cron', '0 9 * * 1', 'Europe/Berlin',
       now() + interval '2 days', job.status, CASE job.status WHEN 'paused' THEN 'no such tool ' || :hostile END
FROM turns, (VALUES ('active'), ('paused')) AS job (status) WHERE turns.id = :turn
"""
FAILED_REPLIES = """
INSERT INTO outbox (
    adapter, platform, platform_server_id, platform_channel_id, content, status, attempts, error, place_key
)
SELECT 'discord', 'discord', 's1', 'c' || n, 'A secret word', 'failed', 4, 'missing access ' || :hostile, 'c' || n
FROM generate_series(1, 2) AS n
"""


async def write_past(site: Site) -> int:
    """Let turns happen, and write what else the pages show; return the id of a turn that called tools."""
    await site.parley.sql(SAGE)
    await site.parley.sql("UPDATE personas SET system_prompt = 'You are wise.' || chr(10) || 'Take your time.'")
    site.parley.model.play(
        [
            Fault(503),
            Answer(
                tool_calls=[
                    ("calculator__calculate", {"expression": "2 + 3"}),
                    ("knowledge__remember", {"content": "Ben likes plums."}),
                ]
            ),
            Answer(f"Five, and noted. {HOSTILE}"),
        ]
    )
    answer = await site.parley.ask("How much is 2 + 3? And I like plums.", user="ben", username="Ben", server="s1")
    await site.parley.sql("UPDATE users SET token_budget_monthly = 0 WHERE display_name = 'Ben'")
    await site.parley.ask("And now?", user="ben", username="Ben", server="s1")
    await site.parley.sql("UPDATE users SET token_budget_monthly = 100000 WHERE display_name = 'Ben'")
    await site.parley.sql("SELECT admin.set_limit('installation', tokens => 900000)")
    await site.parley.sql("SELECT admin.set_limit('server', dollars => 5, platform => 'discord', server => 's1')")
    user_id = await site.parley.value("SELECT user_id FROM turns WHERE id = :id", id=answer.turn_id)
    await site.parley.sql(LEDGER, user_id=user_id)
    await site.parley.sql(ARCHIVIST)
    await site.parley.sql(CONNECTED, hostile=HOSTILE)
    await site.parley.sql(REMOTE_TOOLS, hostile=HOSTILE)
    await site.parley.sql(JOBS, turn=answer.turn_id, hostile=HOSTILE)
    await site.parley.sql(FAILED_REPLIES, hostile=HOSTILE)
    return answer.turn_id
