"""What the ledger promises, whatever happened to the workers: queries that find no row while it is kept."""

FAULTS_OF_THE_LEDGER = {
    "a reservation is left": "SELECT * FROM budget_reservations",
    "tokens are still held": "SELECT id FROM users WHERE tokens_reserved <> 0",
    "the use is not the sum of the ledger": """
        SELECT id, tokens_used_this_month FROM users
        WHERE tokens_used_this_month <> (SELECT sum(input_tokens + output_tokens) FROM token_logs)""",
    "an answered call has not exactly one row": """
        SELECT call.reservation_id, call.worker, count(token_logs.id)
        FROM stage_model_calls AS call LEFT JOIN token_logs USING (reservation_id)
        GROUP BY call.reservation_id, call.worker HAVING count(*) <> 1 OR count(token_logs.id) <> 1""",
    "a row that is no estimate has another usage than its call": """
        SELECT token_logs.id FROM token_logs LEFT JOIN stage_model_calls AS call USING (reservation_id)
        WHERE NOT is_estimated AND input_tokens + output_tokens IS DISTINCT FROM call.tokens""",
    "an answer of the journal is an estimate": """
        SELECT id FROM turns
        WHERE iterations <> (SELECT count(*) FROM token_logs WHERE turn_id = turns.id AND NOT is_estimated)""",
    "an estimate is of no attempt that died": """
        SELECT id FROM turns
        WHERE attempt - 1 < (SELECT count(*) FROM token_logs WHERE turn_id = turns.id AND is_estimated)""",
    "an estimate is not that of a prompt": """
        SELECT id FROM token_logs WHERE is_estimated AND (input_tokens = 0 OR output_tokens <> 0)""",
}
