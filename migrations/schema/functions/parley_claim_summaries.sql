-- Claims up to p_limit conversations that are due for a summary: for 180 seconds nobody else writes one of them. A worker that
-- dies loses its lease, and another one begins again; `tokens_held` is what the dead one held for its model call.
-- `is_wanted` is false while people are still talking: nothing was said for 30 minutes, or the history is too long.
CREATE FUNCTION public.parley_claim_summaries(p_limit bigint)
RETURNS TABLE (
    id bigint, platform text, server text, channel text, thread text, is_direct boolean, user_id bigint, summary text,
    summarized_turn_id bigint, lease timestamptz, last_active_at timestamptz, error text, is_wanted boolean, tokens_held bigint
)
LANGUAGE sql
BEGIN ATOMIC
    WITH due AS (
        SELECT c.id FROM public.conversations AS c
        WHERE c.summary_due_at <= now() AND (c.summary_claimed_until IS NULL OR c.summary_claimed_until < now())
        ORDER BY c.summary_due_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE public.conversations AS place SET summary_claimed_until = clock_timestamp() + interval '180 seconds' FROM due
    WHERE place.id = due.id
    RETURNING place.id, place.platform, place.platform_server_id, place.platform_channel_id, place.platform_thread_id,
              place.is_direct, place.user_id, place.summary, place.summarized_turn_id, place.summary_claimed_until,
              place.last_active_at, place.summary_error,
              place.summary_is_urgent OR place.last_active_at <= now() - interval '30 minutes',
              coalesce((SELECT held.tokens FROM public.budget_reservations AS held WHERE held.conversation_id = place.id), 0);
END;
COMMENT ON FUNCTION public.parley_claim_summaries IS 'Claims conversations that are due for a summary, for 180 seconds.';
