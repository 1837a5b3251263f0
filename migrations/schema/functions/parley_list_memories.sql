-- The facts that are remembered about a person, newest first, of those that they may see in this place: as in
-- parley_recall_by_words, row-level security decides which, and one round trip is enough. What is visible beside that is of
-- other members of the channel.
CREATE FUNCTION public.parley_list_memories(p_visibility jsonb, p_limit integer, p_skip integer)
RETURNS TABLE (id bigint, content text, scope text, said_at timestamptz, author text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('parley.' || setting.key, setting.value, true) FROM jsonb_each_text(p_visibility) AS setting;
    RETURN QUERY
    SELECT m.id, m.content, m.scope, m.said_at, m.author FROM public.memories AS m
    WHERE m.user_id = (p_visibility ->> 'user_id')::bigint AND m.source <> 'turn' AND m.superseded_by IS NULL
    ORDER BY m.said_at DESC, m.id DESC LIMIT p_limit OFFSET p_skip;
END
$$;
COMMENT ON FUNCTION public.parley_list_memories IS
    'The facts that are remembered about a person, newest first, of those that they may see in a place.';
