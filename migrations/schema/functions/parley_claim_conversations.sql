-- Claims up to p_limit conversations that are due for a summary: for 180 seconds nobody else writes one of them. A worker that
-- dies loses its lease, and another one begins again; `tokens_held` is what the dead one held for its model call.
-- `is_wanted` is false while people are still talking: nothing was said for 30 minutes, or the history is too long.
--
-- With p_turns, it claims those that go on, and in which so many turns have ended, or people and agent have said p_tokens
-- tokens, since facts were drawn. What is due for a summary, sooner or later, are the conversations in which something was
-- said since the last one. Only a turn that has ended in the last five minutes makes a conversation due; after a pause its
-- summary has the facts. `done_turn_id` is the last turn that is summarised, or whose facts were drawn.
CREATE FUNCTION public.parley_claim_conversations(
    p_limit bigint, p_turns bigint DEFAULT NULL, p_tokens bigint DEFAULT NULL
)
RETURNS TABLE (
    id bigint, platform text, server text, channel text, thread text, is_direct boolean, user_id bigint, summary text,
    done_turn_id bigint, lease timestamptz, last_active_at timestamptz, error text, is_wanted boolean, tokens_held bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_ids bigint[];
BEGIN
    IF p_turns IS NULL THEN
        v_ids := ARRAY(
            SELECT c.id FROM public.conversations AS c
            WHERE c.summary_due_at <= now() AND (c.summary_claimed_until IS NULL OR c.summary_claimed_until < now())
            ORDER BY c.summary_due_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
        );
    ELSE
        v_ids := ARRAY(
            SELECT c.id FROM public.conversations AS c
            WHERE c.summary_due_at IS NOT NULL AND NOT c.summary_is_urgent
              AND c.last_active_at > now() - CASE WHEN c.facts_retry_at IS NULL THEN interval '5 minutes' ELSE interval '30 minutes' END
              AND (c.summary_claimed_until IS NULL OR c.summary_claimed_until < now())
              AND (c.facts_retry_at IS NULL OR c.facts_retry_at <= now())
              AND EXISTS (
                  SELECT FROM (
                      SELECT turns.id, (
                          SELECT sum(messages.token_count) FROM public.messages
                          WHERE messages.turn_id = turns.id AND messages.role IN ('user', 'assistant')
                      ) AS tokens
                      FROM public.turns
                      WHERE turns.conversation_id = c.id AND turns.id > c.facts_turn_id AND turns.status <> 'running'
                        AND turns.parent_turn_id IS NULL AND (NOT c.is_direct OR turns.user_id = c.user_id)
                        AND (c.shown_turns IS NULL OR turns.id <@ c.shown_turns)
                        AND NOT EXISTS (SELECT FROM public.forgotten_turns WHERE forgotten_turns.turn_id = turns.id)
                      ORDER BY turns.id LIMIT p_turns
                  ) AS said
                  HAVING count(*) >= p_turns OR sum(said.tokens) >= p_tokens
              )
            ORDER BY c.last_active_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED
        );
    END IF;
    RETURN QUERY
    UPDATE public.conversations AS place SET summary_claimed_until = clock_timestamp() + interval '180 seconds'
    WHERE place.id = ANY (v_ids)
    RETURNING place.id, place.platform, place.platform_server_id, place.platform_channel_id, place.platform_thread_id,
              place.is_direct, place.user_id, place.summary,
              CASE WHEN p_turns IS NULL THEN place.summarized_turn_id ELSE place.facts_turn_id END,
              place.summary_claimed_until, place.last_active_at, CASE WHEN p_turns IS NULL THEN place.summary_error END,
              p_turns IS NOT NULL OR place.summary_is_urgent OR place.last_active_at <= now() - interval '30 minutes',
              coalesce((SELECT held.tokens FROM public.budget_reservations AS held WHERE held.conversation_id = place.id), 0);
END
$$;
COMMENT ON FUNCTION public.parley_claim_conversations IS
    'Claims, for 180 seconds, conversations that are due for a summary, or in which enough was said to draw facts from it.';
