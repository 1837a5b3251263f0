-- Deletes what belongs to a server that lives in another cell now; returns how many rows. A persona of it that an agent uses stays.
CREATE FUNCTION public.parley_remove_server(p_platform text, p_server text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_table record;
    v_rows bigint;
    v_count bigint := 0;
BEGIN
    PERFORM set_config('parley.delete_history', 'yes', true);
    FOR v_table IN
        SELECT t.name, t.condition FROM public.parley_server_tables() AS t WHERE t.condition IS NOT NULL ORDER BY t.number DESC
    LOOP
        EXECUTE format('DELETE FROM public.%I AS own WHERE (%s)', v_table.name, v_table.condition)
            || CASE WHEN v_table.name = 'personas'
               THEN ' AND NOT EXISTS (SELECT FROM public.agents WHERE agents.persona_id = own.id)' ELSE '' END
        USING p_platform, p_server;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_count := v_count + v_rows;
    END LOOP;
    PERFORM set_config('parley.delete_history', '', true);
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_remove_server IS 'Deletes what belongs to a server that lives in another cell now.';
REVOKE EXECUTE ON FUNCTION public.parley_remove_server FROM parley_app, parley_admin;
