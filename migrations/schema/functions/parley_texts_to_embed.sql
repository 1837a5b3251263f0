-- The texts of these memories and of their neighbours with who said each, whom their embedding is charged to, and a version
-- that changes with the texts: the one that parley_store_vectors compares. Runs with the rights of its owner: they are of
-- many persons, and the neighbours of a message in a channel are of others. So it is for background work alone: of memories
-- that lack vectors and that a worker has claimed, in a transaction that names no person.
CREATE FUNCTION public.parley_texts_to_embed(p_ids bigint[])
RETURNS TABLE (
    memory_id bigint, user_id bigint, conversation_id bigint, said_at timestamptz, content text, speaker text,
    before text, before_speaker text, after text, after_speaker text, version bigint
)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.id, m.user_id, m.conversation_id, m.said_at, m.content, m.speaker, b.content, b.speaker, a.content, a.speaker,
           hashtextextended(jsonb_build_array(b.content, m.content, a.content)::text, 0)
    FROM public.memories AS m
    LEFT JOIN public.memories AS b ON b.scope_id = m.scope_id AND b.ordinal = m.ordinal - 1
    LEFT JOIN public.memories AS a ON a.scope_id = m.scope_id AND a.ordinal = m.ordinal + 1
    WHERE m.id = ANY (p_ids) AND m.is_indexed AND m.vectors_due_at > now()
          AND coalesce(current_setting('parley.user_id', true), '') = ''
$$;
COMMENT ON FUNCTION public.parley_texts_to_embed IS
    'Texts of memories and of their neighbours with their speakers, for embedding, and a version that changes with the texts.';
REVOKE EXECUTE ON FUNCTION public.parley_texts_to_embed FROM parley_admin;
