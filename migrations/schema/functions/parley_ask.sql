-- Asks a person before something is done, and returns the question's number: for a turn that ends with a question about its
-- tool calls, and for a command, which has no turn. A person has at most one open question of turns in a conversation, and
-- one of commands: a newer one replaces the older.
--
-- p_question: {id, call_id, tool, arguments, arguments_hash, question, reason, agent, approver_level}; `id` is null where
-- nobody had to know it before.
CREATE FUNCTION public.parley_ask(p_user_id bigint, p_conversation_id bigint, p_turn_id bigint, p_question jsonb)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    IF p_conversation_id IS NULL THEN
        -- The turns of a conversation run one after the other, commands side by side.
        PERFORM pg_advisory_xact_lock(hashtextextended('ask ' || p_user_id, 0));
    END IF;
    UPDATE public.confirmations SET status = 'expired'
    WHERE user_id = p_user_id AND conversation_id IS NOT DISTINCT FROM p_conversation_id AND status = 'pending';
    INSERT INTO public.confirmations (id, user_id, conversation_id, turn_id, call_id, tool, arguments,
                                      arguments_hash, question, reason, agent, approver_level)
    SELECT coalesce(asked.id, nextval(pg_get_serial_sequence('public.confirmations', 'id'))), p_user_id,
           p_conversation_id, p_turn_id, asked.call_id, asked.tool, asked.arguments, asked.arguments_hash,
           asked.question, asked.reason, asked.agent, asked.approver_level
    FROM jsonb_to_record(p_question) AS asked
        (id bigint, call_id text, tool text, arguments text, arguments_hash text, question text, reason text,
         agent text, approver_level text)
    RETURNING confirmations.id INTO v_id;
    RETURN v_id;
END
$$;
COMMENT ON FUNCTION public.parley_ask IS 'Asks a person before something is done, and returns the question''s number.';
