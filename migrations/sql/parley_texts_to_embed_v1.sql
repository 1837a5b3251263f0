-- The texts of these memories and of their neighbours, whom their embedding is charged to, and a version that changes with
-- the texts. Runs with the rights of its owner: they are of many persons.
CREATE FUNCTION public.parley_texts_to_embed_v1(p_ids bigint[])
RETURNS TABLE (
    memory_id bigint, user_id bigint, scope_id bigint, conversation_id bigint, said_at timestamptz, content text,
    before text, after text, version bigint
)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.memory_id, t.user_id, t.scope_id, m.conversation_id, t.said_at, t.content, t.before, t.after,
           hashtextextended(jsonb_build_array(t.before, t.content, t.after)::text, 0)
    FROM public.parley_texts_of_memories_v1(p_ids) AS t JOIN public.memories AS m ON m.id = t.memory_id
$$;
COMMENT ON FUNCTION public.parley_texts_to_embed_v1 IS
    'Texts of memories and of their neighbours, for embedding, with a version that changes with the texts.';
