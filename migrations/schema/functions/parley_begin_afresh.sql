-- Lets the conversation of a place begin afresh: nothing that was said before is shown to a model, or summarised. Where a deleted
-- message makes the summaries behind it be written again, this is where they begin. Nothing is deleted. Returns the
-- conversation; no row when nothing was ever said there.
CREATE FUNCTION public.parley_begin_afresh(p_platform text, p_server text, p_channel text, p_thread text)
RETURNS TABLE (id bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_last bigint;
BEGIN
    -- A summary that a worker is writing just now is not stored.
    UPDATE public.conversations AS c SET window_turn_id = newest.id + 1, summary = NULL, is_summarized = false,
        summarized_turn_id = newest.id, summary_claimed_until = NULL
    FROM public.conversations AS same CROSS JOIN LATERAL (
        SELECT coalesce(max(turns.id), 0) AS id FROM public.turns WHERE turns.conversation_id = same.id
    ) AS newest
    WHERE same.id = c.id AND c.platform = p_platform AND c.platform_server_id IS NOT DISTINCT FROM p_server
      AND c.platform_channel_id = p_channel AND c.platform_thread_id IS NOT DISTINCT FROM p_thread
    RETURNING c.id, newest.id INTO id, v_last;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    DELETE FROM public.summaries WHERE conversation_id = parley_begin_afresh.id AND last_turn_id < v_last;
    INSERT INTO public.summaries (conversation_id, last_turn_id, content) VALUES (parley_begin_afresh.id, v_last, '')
    ON CONFLICT ON CONSTRAINT uq_summaries_conversation_id_last_turn_id DO UPDATE SET content = '';
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_begin_afresh IS 'Lets the conversation of a place begin afresh; nothing is deleted.';
