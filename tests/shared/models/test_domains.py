"""The types of columns that nearly every turn writes refuse what their tables may not hold, whoever writes the row."""

import asyncpg
import pytest

INBOX = (
    "INSERT INTO inbox (adapter, platform, platform_event_id, place_key, platform_channel_id, platform_user_id, content"
)
MESSAGES = "INSERT INTO messages (turn_id, seq, content, role"
WRONG = {
    INBOX + ", status) VALUES ('', '', '', '', '', '', '', 'lost')": "inbox_status_is_waiting_claimed_",
    INBOX + ", request) VALUES ('', '', '', '', '', '', '', '[]')": "jsonb_object_is_an_object",
    INBOX + ", attachments) VALUES ('', '', '', '', '', '', '', '{}')": "jsonb_objects_is_an_array_of_objects",
    INBOX + ", attachments) VALUES ('', '', '', '', '', '', '', '[1]')": "jsonb_objects_is_an_array_of_objects",
    "INSERT INTO outbox (adapter, platform, platform_channel_id, content, status) VALUES ('', '', '', '', 'lost')": (
        "outbox_status_is_noted_"
    ),
    "INSERT INTO turns (conversation_id, status) VALUES (1, 'asleep')": "turn_status_is_running_",
    "INSERT INTO turns (conversation_id, loop_mode) VALUES (1, 'chaos')": "loop_mode_is_native_or_planner",
    MESSAGES + ") VALUES (1, 0, '', 'system')": "step_role_is_user_",
    MESSAGES + ", outcome) VALUES (1, 0, '', 'user', 'luck')": "tool_outcome_is_known",
    MESSAGES + ", token_count) VALUES (1, 0, '', 'user', -1)": "token_count_is_not_negative",
    "INSERT INTO token_logs (model, output_tokens) VALUES ('gpt-4o-mini', -1)": "token_count_is_not_negative",
    "INSERT INTO users (tokens_reserved) VALUES (-1)": "token_total_is_not_negative",
}


@pytest.mark.parametrize(("sql", "rule"), WRONG.items(), ids=WRONG.values())
async def test_what_a_column_may_not_hold_is_refused(sql: str, rule: str, owner: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=rule):
        await owner.execute(sql)
