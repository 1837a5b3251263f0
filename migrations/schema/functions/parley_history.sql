-- The steps of a conversation's turns from `p_first` on, before `p_before`, in their order: JSON arrays of turn_id, user_id, seq,
-- role, content, token_count, model_used, speaker, platform_message_id, tool_call_id, tool_name and outcome. With a user
-- only those of that person's own turns: in a direct conversation nobody sees what others wrote there. `p_shown`:
-- the turns of the conversation's branch that is chosen; NULL: all of them.
CREATE FUNCTION public.parley_history(
    p_conversation_id bigint, p_first bigint, p_before bigint, p_user_id bigint, p_shown int8multirange
)
RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(json_agg(json_build_array(
        turn_id, user_id, seq, role, content, token_count, model_used, speaker, platform_message_id, tool_call_id,
        tool_name, outcome
    )), '[]') FROM (
        SELECT * FROM public.messages
        WHERE conversation_id = p_conversation_id AND turn_id >= p_first AND turn_id < p_before
          AND (p_user_id IS NULL OR user_id = p_user_id) AND (p_shown IS NULL OR turn_id <@ p_shown)
        ORDER BY turn_id, seq
    ) AS steps;
END
$$;
COMMENT ON FUNCTION public.parley_history IS 'The steps of a conversation''s turns in their order, as JSON.';
