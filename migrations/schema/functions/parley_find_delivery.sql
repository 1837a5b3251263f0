-- What the delivery of a turn's reply depends on. The planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_find_delivery(p_turn_id bigint) RETURNS TABLE (
    allows_mentions boolean, turn_status text, asker text, was_edited boolean, was_resumed boolean, is_withdrawn boolean,
    has_open_question boolean
)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(personas.allow_mentions, false), turns.status, last.platform_user_id,
           last.edited_at IS NOT NULL AND position(last.content IN (
               SELECT content FROM public.messages WHERE messages.turn_id = turns.id AND seq = 0
           )) = 0,
           turns.attempt > 1,
           -- Stopped by the redaction of a deleted message: all that it answers was deleted.
           coalesce(turns.stop_requested AND last.content = '[deleted]' AND NOT EXISTS (
               SELECT FROM public.inbox WHERE inbox.turn_id = turns.id AND content <> '[deleted]'
           ), false),
           (SELECT bool_or(status = 'pending' AND expires_at > now()) FROM public.confirmations
            WHERE confirmations.conversation_id = turns.conversation_id
              AND confirmations.created_at > now() - interval '1 day')
    FROM public.turns LEFT JOIN public.personas ON personas.id = turns.persona_id
    LEFT JOIN LATERAL (
        SELECT platform_user_id, edited_at, content FROM public.inbox WHERE inbox.turn_id = turns.id
        ORDER BY id DESC LIMIT 1
    ) AS last ON true
    WHERE turns.id = p_turn_id
$$;
COMMENT ON FUNCTION public.parley_find_delivery IS
    'What the delivery of a turn''s reply depends on: may it mention people, was the message edited, was all of it deleted.';
