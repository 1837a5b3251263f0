-- Withdraws all summaries and titles that were made of these turns, because their text was deleted or changed, and asks for
-- new summaries at once. What was summarised before the first of the turns stays. What a worker is writing just now is not
-- stored: its lease ends. Returns how many conversations were changed.
CREATE FUNCTION public.parley_forget_summaries(p_turn_ids bigint[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    PERFORM FROM public.conversations
    WHERE id IN (SELECT conversation_id FROM public.turns WHERE turns.id = ANY(p_turn_ids))
    ORDER BY id FOR NO KEY UPDATE;

    -- An empty summary marks where a person began afresh; nothing before it is summarised again.
    DELETE FROM public.summaries USING public.turns
    WHERE turns.id = ANY(p_turn_ids) AND summaries.conversation_id = turns.conversation_id
      AND summaries.last_turn_id >= turns.id AND summaries.content <> '';

    -- A title was made of all up to its turn; without a row the chat is named anew.
    DELETE FROM public.conversation_titles AS title USING public.turns
    WHERE turns.id = ANY(p_turn_ids) AND title.conversation_id = turns.conversation_id AND title.turn_id >= turns.id;

    -- Facts are drawn anew from what has changed.
    UPDATE public.conversations SET facts_turn_id = changed.turn_id - 1
    FROM (
        SELECT conversation_id AS id, min(turns.id) AS turn_id FROM public.turns
        WHERE turns.id = ANY(p_turn_ids) GROUP BY conversation_id
    ) AS changed
    WHERE conversations.id = changed.id AND conversations.facts_turn_id >= changed.turn_id;

    WITH changed AS (
        SELECT conversation_id AS id, min(turns.id) AS turn_id FROM public.turns
        WHERE turns.id = ANY(p_turn_ids) GROUP BY conversation_id
    )
    UPDATE public.conversations SET summary = nullif(kept.content, ''),
        summarized_turn_id = coalesce(kept.last_turn_id, 0), is_summarized = false, summary_due_at = now(),
        summary_is_urgent = true, summary_claimed_until = NULL, summary_failures = 0, summary_error = NULL
    FROM changed LEFT JOIN LATERAL (
        SELECT content, last_turn_id FROM public.summaries WHERE summaries.conversation_id = changed.id
        ORDER BY last_turn_id DESC LIMIT 1
    ) AS kept ON true
    WHERE conversations.id = changed.id
      AND (conversations.summarized_turn_id >= changed.turn_id OR conversations.summary_claimed_until IS NOT NULL);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_forget_summaries IS
    'Withdraws summaries and titles that were made of these turns, and asks for new ones; returns how many conversations.';
