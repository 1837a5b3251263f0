-- For the other functions: adds steps to a turn's journal, and events for its readers. p_conversation_id is NULL for
-- the turn of an agent that was asked: what it says is part of no conversation.
CREATE FUNCTION public.parley_write_journal(
    p_turn_id bigint, p_conversation_id bigint, p_user_id bigint, p_steps jsonb, p_events jsonb
)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH written AS (
        INSERT INTO public.messages (conversation_id, turn_id, seq, user_id, role, content, token_count, model_used,
                                     tool_call_id, tool_name, speaker, platform_message_id, plan, outcome, confirmation)
        SELECT p_conversation_id, p_turn_id, step.seq, p_user_id, step.role, step.content, step.token_count,
               step.model_used, step.tool_call_id, step.tool_name, step.speaker, step.platform_message_id, step.plan,
               step.outcome, step.confirmation
        FROM jsonb_to_recordset(p_steps) AS step
            (seq int, role text, content text, token_count int, model_used text, tool_call_id text, tool_name text,
             speaker text, platform_message_id text, plan jsonb, outcome text, confirmation jsonb)
    )
    INSERT INTO public.turn_events (turn_id, seq, name, payload)
    SELECT p_turn_id, event.seq, event.name, event.payload
    FROM jsonb_to_recordset(p_events) AS event (seq int, name text, payload jsonb);
END
$$;
COMMENT ON FUNCTION public.parley_write_journal IS 'For the other functions: adds steps and events to a turn.';
