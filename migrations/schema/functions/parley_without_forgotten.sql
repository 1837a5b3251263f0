-- What a platform told with a message, without the earlier messages that their persons asked to forget: platforms repeat
-- those all the same.
CREATE FUNCTION public.parley_without_forgotten(p_platform text, p_platform_context jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_set(p_platform_context, '{earlier}', coalesce((
        SELECT jsonb_agg(quoted ORDER BY place)
        FROM jsonb_array_elements(p_platform_context -> 'earlier') WITH ORDINALITY AS earlier (quoted, place)
        WHERE NOT EXISTS (
            SELECT FROM public.inbox AS stored JOIN public.forgotten_turns USING (turn_id)
            WHERE stored.platform = p_platform AND stored.platform_event_id = quoted ->> 'message_id'
        )
    ), '[]'))
$$;
COMMENT ON FUNCTION public.parley_without_forgotten IS
    'What a platform told with a message, without the earlier messages that their persons asked to forget.';
