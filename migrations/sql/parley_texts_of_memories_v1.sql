-- The texts of these memories and of their neighbours in the conversation, for embedding them.
-- Runs with the rights of its owner: they are of many persons, and the neighbours of a message in a channel are of others.
CREATE FUNCTION public.parley_texts_of_memories_v1(p_ids bigint[])
RETURNS TABLE (
    memory_id bigint, user_id bigint, scope_id bigint, said_at timestamptz, window_length integer, content text,
    before text, after text
)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.id, m.user_id, m.scope_id, m.said_at, m.window_length, m.content, b.content, a.content
    FROM public.memories AS m
    LEFT JOIN public.memories AS b ON b.scope_id = m.scope_id AND b.ordinal = m.ordinal - 1
    LEFT JOIN public.memories AS a ON a.scope_id = m.scope_id AND a.ordinal = m.ordinal + 1
    WHERE m.id = ANY (p_ids) AND m.is_indexed
$$;
