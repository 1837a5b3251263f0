-- How many rows of each table belong to a server; `is_lost` as parley_server_tables has it.
CREATE FUNCTION public.parley_count_server(p_platform text, p_server text)
RETURNS TABLE (name text, rows bigint, is_lost boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_table record;
BEGIN
    FOR v_table IN SELECT t.* FROM public.parley_server_tables() AS t WHERE t.condition IS NOT NULL ORDER BY t.number LOOP
        name := v_table.name;
        is_lost := v_table.is_lost;
        EXECUTE format('SELECT count(*) FROM public.%I AS own WHERE %s', name, v_table.condition)
        INTO rows USING p_platform, p_server;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_count_server IS 'How many rows of each table belong to a server.';
REVOKE EXECUTE ON FUNCTION public.parley_count_server FROM parley_app, parley_admin;
