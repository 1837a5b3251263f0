-- Stores a summary of what was said up to p_last_turn_id, and ends the claim. With p_has_more the next part follows at once.
-- p_last_active_at: as it was when the conversation was claimed; what has been said since is summarised after the next pause.
-- Returns false, and changes nothing, when the lease has been lost.
CREATE FUNCTION public.parley_store_summary(
    p_id bigint, p_lease timestamptz, p_last_active_at timestamptz, p_last_turn_id bigint, p_content text, p_model text,
    p_has_more boolean
)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_is_later_there boolean := EXISTS (
        SELECT FROM public.turns JOIN public.conversations AS c ON c.id = turns.conversation_id
        WHERE c.id = p_id AND turns.id > p_last_turn_id AND parent_turn_id IS NULL
          AND (c.shown_turns IS NULL OR turns.id <@ c.shown_turns)
    );
BEGIN
    UPDATE public.conversations SET summary = p_content, summarized_turn_id = p_last_turn_id, summary_claimed_until = NULL,
        is_summarized = NOT p_has_more AND last_active_at = p_last_active_at AND NOT v_is_later_there,
        summary_is_urgent = p_has_more,
        summary_due_at = CASE WHEN p_has_more THEN now()
                              WHEN last_active_at <> p_last_active_at OR v_is_later_there
                              THEN public.parley_next_pause(last_active_at) END,
        summary_failures = 0, summary_error = NULL, facts_turn_id = greatest(facts_turn_id, p_last_turn_id),
        facts_failures = 0, facts_retry_at = NULL
    WHERE id = p_id AND summary_claimed_until = p_lease;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO public.summaries (conversation_id, last_turn_id, content, model)
    VALUES (p_id, p_last_turn_id, p_content, p_model)
    ON CONFLICT (conversation_id, last_turn_id) DO UPDATE SET content = excluded.content, model = excluded.model;
    RETURN true;
END
$$;
COMMENT ON FUNCTION public.parley_store_summary IS 'Stores the summary of a claimed conversation; false when the lease is lost.';
