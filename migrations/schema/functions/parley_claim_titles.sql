-- Claims, for 180 seconds, up to p_limit chats of the page that have an answer and no title yet, as parley_claim_conversations
-- claims them for a summary: one worker at a time reads a conversation and pays for it. Each claim is one of three attempts,
-- a minute apart; five minutes after the last answer there are no more.
CREATE FUNCTION public.parley_claim_titles(p_limit bigint)
RETURNS TABLE (
    id bigint, platform text, server text, channel text, thread text, is_direct boolean, user_id bigint, summary text,
    done_turn_id bigint, lease timestamptz, last_active_at timestamptz, error text, is_wanted boolean, tokens_held bigint
)
LANGUAGE sql
BEGIN ATOMIC
    WITH due AS MATERIALIZED (
        SELECT c.id, c.user_id FROM public.conversations AS c
        LEFT JOIN public.conversation_titles AS t ON t.conversation_id = c.id
        WHERE c.summary_due_at IS NOT NULL AND c.last_active_at > now() - interval '5 minutes'
          AND c.platform = 'web' AND c.platform_server_id IS NULL AND c.platform_thread_id IS NULL
          AND c.is_direct AND c.user_id IS NOT NULL
          AND (c.summary_claimed_until IS NULL OR c.summary_claimed_until < now())
          AND (t.id IS NULL OR t.title IS NULL AND t.attempts < 3 AND t.tried_at < now() - interval '1 minute')
          AND EXISTS (
              SELECT FROM public.turns
              WHERE turns.conversation_id = c.id AND turns.status = 'answered' AND turns.parent_turn_id IS NULL
                AND (c.shown_turns IS NULL OR turns.id <@ c.shown_turns)
                AND NOT EXISTS (SELECT FROM public.forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
          )
        ORDER BY c.last_active_at LIMIT p_limit FOR NO KEY UPDATE OF c SKIP LOCKED
    ), attempt AS (
        INSERT INTO public.conversation_titles AS t (conversation_id, user_id) SELECT due.id, due.user_id FROM due
        ON CONFLICT ON CONSTRAINT uq_conversation_titles_conversation_id
        DO UPDATE SET attempts = t.attempts + 1, tried_at = now()
    )
    UPDATE public.conversations AS place SET summary_claimed_until = clock_timestamp() + interval '180 seconds'
    FROM due WHERE place.id = due.id
    RETURNING place.id, place.platform, place.platform_server_id, place.platform_channel_id, place.platform_thread_id,
              place.is_direct, place.user_id, NULL::text, 0::bigint, place.summary_claimed_until, place.last_active_at,
              NULL::text, true,
              coalesce((SELECT held.tokens FROM public.budget_reservations AS held WHERE held.conversation_id = place.id), 0);
END;
COMMENT ON FUNCTION public.parley_claim_titles IS
    'Claims, for 180 seconds, chats of the page that have an answer and no title yet; three attempts each.';
