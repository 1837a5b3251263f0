-- Ends the claim of a conversation without a summary, if the lease is not lost. Without p_last_active_at the worker looks again
-- after the next pause. With it, as it was when the conversation was claimed, nothing new was said: the summary, if there is one,
-- holds everything, unless somebody has written since.
CREATE FUNCTION public.parley_end_claim(p_id bigint, p_lease timestamptz, p_last_active_at timestamptz DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_is_running boolean := EXISTS (
        SELECT FROM public.turns WHERE conversation_id = p_id AND status = 'running' AND parent_turn_id IS NULL
    );
BEGIN
    IF p_last_active_at IS NULL THEN
        UPDATE public.conversations SET summary_claimed_until = NULL,
            summary_due_at = public.parley_next_pause(last_active_at)
        WHERE id = p_id AND summary_claimed_until = p_lease;
        RETURN;
    END IF;
    UPDATE public.conversations SET summary_claimed_until = NULL, summary_is_urgent = false,
        is_summarized = summary IS NOT NULL AND last_active_at = p_last_active_at AND NOT v_is_running,
        summary_due_at = CASE WHEN last_active_at <> p_last_active_at OR v_is_running
                              THEN public.parley_next_pause(last_active_at) END
    WHERE id = p_id AND summary_claimed_until = p_lease;
END
$$;
COMMENT ON FUNCTION public.parley_end_claim IS 'Ends the claim of a conversation in which there is nothing to summarise now.';
