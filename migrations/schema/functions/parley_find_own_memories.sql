-- Finds the memories of a person whose text has all of these words, the newest first, and returns their ids. The words of a
-- memory contain its date; here the date alone is no match.
--
-- Runs with the rights of its owner: in a direct message a person finds also what they said in channels, whose words are
-- hidden there. The caller reads the texts by the ids, as row-level security allows it.
CREATE FUNCTION public.parley_find_own_memories(p_user_id bigint, p_words text[], p_limit integer, p_skip integer)
RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH terms AS MATERIALIZED (
        SELECT DISTINCT coalesce((ts_lexize('english_stem', w))[1], w) AS term FROM unnest(p_words) AS w
    )
    SELECT m.id FROM public.memories AS m
    CROSS JOIN LATERAL (SELECT m.said_at AT TIME ZONE 'UTC' AS day) AS said
    WHERE m.user_id = p_user_id AND m.is_indexed AND NOT EXISTS (
        SELECT FROM terms AS t WHERE NOT EXISTS (
            SELECT FROM public.memory_words AS w
            WHERE w.scope_id = m.scope_id AND w.term = t.term AND w.ordinal = m.ordinal
              AND w.tf > (t.term IN (
                  to_char(said.day, 'FMDD'), to_char(said.day, 'YYYY'),
                  coalesce((ts_lexize('english_stem', lower(to_char(said.day, 'FMMonth'))))[1], '')
              ))::integer
        )
    )
    ORDER BY m.said_at DESC, m.id DESC LIMIT p_limit OFFSET p_skip
$$;
COMMENT ON FUNCTION public.parley_find_own_memories IS
    'Returns the ids of a person''s memories whose text has all of these words, the newest first.';
REVOKE EXECUTE ON FUNCTION public.parley_find_own_memories FROM parley_admin;
