CREATE FUNCTION public.parley_remove_from_index() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- In order of ids, so that two who forget in several scopes can't wait for each other.
    PERFORM FROM memory_scopes AS s WHERE s.id IN (SELECT scope_id FROM gone) ORDER BY s.id FOR UPDATE;
    -- Instead of a foreign key, which would be looked up for each word of each message.
    DELETE FROM memory_words WHERE memory_id IN (SELECT id FROM gone);
    UPDATE memory_scopes AS s SET memories = s.memories - g.memories, words = s.words - g.words
    FROM (
        SELECT scope_id, count(*) AS memories, sum(turn_length) AS words FROM gone WHERE is_indexed GROUP BY scope_id
    ) AS g
    WHERE s.id = g.scope_id;
    PERFORM parley_measure_windows(array_agg(scope_id), array_agg(ordinal)) FROM gone
    WHERE source = 'turn' AND ordinal IS NOT NULL;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_remove_from_index IS
    'Trigger: takes deleted memories out of the counts of their scopes, and their words out of the index.';
