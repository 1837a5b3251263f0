-- Deletes memories that are older than memory_retention says, at most p_step of them, in the scopes that follow p_after.
-- With a message go the facts that were drawn from it, unless facts have days of their own there, and its turn is not
-- summarised or remembered again. Returns where to go on, and whether there is more.
--
-- Runs with the rights of its owner: memories are hidden from everybody else.
CREATE FUNCTION public.parley_expire_memories(p_after bigint, p_step integer)
RETURNS TABLE (last bigint, removed bigint, has_more boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_scopes bigint[];
    v_turns bigint[];
    v_count bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM public.memory_retention AS r WHERE r.kind <> 'summary') THEN
        RETURN QUERY SELECT p_after, 0::bigint, false;
        RETURN;
    END IF;
    v_scopes := ARRAY(SELECT s.id FROM public.memory_scopes AS s WHERE s.id > p_after ORDER BY s.id LIMIT p_step);
    WITH expired AS (
        SELECT m.id FROM public.memory_scopes AS s
        CROSS JOIN unnest(ARRAY['turn', 'fact', 'remembered']) AS kind
        CROSS JOIN LATERAL public.parley_memory_kept_days(kind, s.platform, s.platform_server_id) AS days
        CROSS JOIN LATERAL (
            SELECT m.id FROM public.memories AS m
            WHERE m.scope_id = s.id AND m.source = kind AND m.said_at < now() - days * interval '1 day'
            ORDER BY m.said_at LIMIT p_step
        ) AS m
        WHERE s.id = ANY (v_scopes) AND days IS NOT NULL LIMIT p_step
    ), gone AS (
        DELETE FROM public.memories AS m USING expired WHERE m.id = expired.id RETURNING m.source, m.turn_id
    )
    SELECT count(*), array_agg(DISTINCT gone.turn_id) FILTER (WHERE gone.source = 'turn' AND gone.turn_id IS NOT NULL)
    INTO v_count, v_turns FROM gone;
    INSERT INTO public.forgotten_turns (turn_id) SELECT t FROM unnest(v_turns) AS t ON CONFLICT DO NOTHING;
    DELETE FROM public.memories AS m USING public.memory_scopes AS s
    WHERE m.turn_id = ANY (v_turns) AND m.source = 'fact' AND s.id = m.scope_id
          AND public.parley_memory_kept_days('fact', s.platform, s.platform_server_id) IS NULL;
    IF v_count = p_step THEN
        RETURN QUERY SELECT p_after, v_count, true;
    ELSE
        RETURN QUERY SELECT coalesce(v_scopes[cardinality(v_scopes)], p_after), v_count, cardinality(v_scopes) = p_step;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_expire_memories IS
    'Deletes memories that are older than memory_retention says, in small steps; returns where to go on.';
REVOKE EXECUTE ON FUNCTION public.parley_expire_memories FROM parley_admin;
