-- A memory as recall shows it, with what was said before and after it. The planner puts it into the statement that calls it,
-- so that row-level security decides as everywhere there.
--
-- Neighbours are ranges that only the index of ordinals has in order: the plan that a connection makes while there are no memories
-- would read the whole scope for each.
CREATE FUNCTION public.parley_show_memory(p_id bigint) RETURNS TABLE (
    content text, scope text, said_at timestamptz, source text, author text, speaker text, is_from_bot boolean,
    before_id bigint, before text, before_author text, before_speaker text, before_is_from_bot boolean,
    after_id bigint, after text, after_author text, after_speaker text, after_is_from_bot boolean
)
LANGUAGE sql STABLE AS $$
    SELECT m.content, m.scope, m.said_at, m.source, m.author, m.speaker, m.is_from_bot,
           b.id, b.content, b.author, b.speaker, b.is_from_bot, a.id, a.content, a.author, a.speaker, a.is_from_bot
    FROM (SELECT n.* FROM public.memories AS n WHERE n.id = p_id LIMIT 1) AS m
    LEFT JOIN LATERAL (
        SELECT n.* FROM public.memories AS n
        WHERE n.scope_id = m.scope_id AND n.ordinal >= m.ordinal - 1 AND n.ordinal < m.ordinal
        ORDER BY n.ordinal LIMIT 1
    ) AS b ON true
    LEFT JOIN LATERAL (
        SELECT n.* FROM public.memories AS n
        WHERE n.scope_id = m.scope_id AND n.ordinal > m.ordinal AND n.ordinal <= m.ordinal + 1
        ORDER BY n.ordinal LIMIT 1
    ) AS a ON true
$$;
COMMENT ON FUNCTION public.parley_show_memory IS 'A memory as recall shows it, with what was said before and after it.';
