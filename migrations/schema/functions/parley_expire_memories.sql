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
    v_ids bigint[];
    v_turns bigint[];
    v_count bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM public.memory_retention AS r WHERE r.kind <> 'summary') THEN
        RETURN QUERY SELECT p_after, 0::bigint, false;
        RETURN;
    END IF;
    v_scopes := ARRAY(SELECT s.id FROM public.memory_scopes AS s WHERE s.id > p_after ORDER BY s.id LIMIT p_step);
    v_ids := ARRAY(
        SELECT m.id FROM public.memory_scopes AS s
        CROSS JOIN unnest(ARRAY['turn', 'fact', 'remembered']) AS kind
        CROSS JOIN LATERAL public.parley_memory_kept_days(kind, s.platform, s.platform_server_id) AS days
        CROSS JOIN LATERAL (
            SELECT m.id FROM public.memories AS m
            WHERE m.scope_id = s.id AND m.source = kind AND m.said_at < now() - days * interval '1 day'
            ORDER BY m.said_at LIMIT p_step
        ) AS m
        WHERE s.id = ANY (v_scopes) AND days IS NOT NULL LIMIT p_step
    );
    v_turns := ARRAY(
        SELECT t.id FROM public.turns AS t
        WHERE t.id IN (SELECT m.turn_id FROM public.memories AS m WHERE m.id = ANY (v_ids) AND m.source = 'turn')
        ORDER BY t.id FOR KEY SHARE
    );
    -- The turns before the memories, as whoever erases a person.
    INSERT INTO public.forgotten_turns (turn_id) SELECT unnest(v_turns) ON CONFLICT DO NOTHING;
    PERFORM public.parley_lock_memories(v_ids || ARRAY(
        SELECT m.id FROM public.memories AS m WHERE m.turn_id = ANY (v_turns) AND m.source = 'fact'
    ));
    DELETE FROM public.memories AS m WHERE m.id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    DELETE FROM public.memories AS m USING public.memory_scopes AS s
    WHERE m.turn_id = ANY (v_turns) AND m.source = 'fact' AND s.id = m.scope_id
          AND public.parley_memory_kept_days('fact', s.platform, s.platform_server_id) IS NULL;
    IF cardinality(v_ids) = p_step THEN
        RETURN QUERY SELECT p_after, v_count, true;
    ELSE
        RETURN QUERY SELECT coalesce(v_scopes[cardinality(v_scopes)], p_after), v_count, cardinality(v_scopes) = p_step;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_expire_memories IS
    'Deletes memories that are older than memory_retention says, in small steps; returns where to go on.';
REVOKE EXECUTE ON FUNCTION public.parley_expire_memories FROM parley_admin;
