-- Deletes the summaries of conversations in which nothing was said for longer than memory_retention says; of the p_step
-- conversations that follow p_after. What they held is not summarised again. Returns where to go on, and whether there is
-- more.
CREATE FUNCTION public.parley_expire_summaries(p_after bigint, p_step integer)
RETURNS TABLE (last bigint, removed bigint, has_more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_ids bigint[];
    v_count bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM public.memory_retention AS r WHERE r.kind = 'summary') THEN
        RETURN QUERY SELECT p_after, 0::bigint, false;
        RETURN;
    END IF;
    v_ids := ARRAY(SELECT c.id FROM public.conversations AS c WHERE c.id > p_after ORDER BY c.id LIMIT p_step);
    WITH expired AS (
        UPDATE public.conversations AS c SET summary = NULL, is_summarized = false, summary_claimed_until = NULL
        WHERE c.id = ANY (v_ids) AND c.summary IS NOT NULL AND c.last_active_at < now() - interval '1 day'
              * public.parley_memory_kept_days('summary', CASE WHEN NOT c.is_direct THEN c.platform END,
                  CASE WHEN NOT c.is_direct THEN coalesce(c.platform_server_id, c.platform_channel_id) END)
        RETURNING c.id, c.summarized_turn_id
    ), emptied AS (
        DELETE FROM public.summaries AS s USING expired
        WHERE s.conversation_id = expired.id AND s.last_turn_id <> expired.summarized_turn_id
    ), marked AS (
        -- An empty summary marks where the next one begins.
        INSERT INTO public.summaries AS s (conversation_id, last_turn_id, content)
        SELECT expired.id, expired.summarized_turn_id, '' FROM expired
        ON CONFLICT (conversation_id, last_turn_id) DO UPDATE SET content = ''
    )
    SELECT count(*) INTO v_count FROM expired;
    RETURN QUERY SELECT coalesce(v_ids[cardinality(v_ids)], p_after), v_count, cardinality(v_ids) = p_step;
END
$$;
COMMENT ON FUNCTION public.parley_expire_summaries IS
    'Deletes summaries that are older than memory_retention says, in small steps; returns where to go on.';
