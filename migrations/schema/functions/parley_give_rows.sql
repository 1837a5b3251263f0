-- The rows of a table that belong to a server, as JSON without what the database computes.
CREATE FUNCTION public.parley_give_rows(p_table text, p_platform text, p_server text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT to_jsonb(own)::text FROM public.%I AS own WHERE %s', p_table,
        (SELECT condition FROM public.parley_server_tables() WHERE name = p_table AND NOT is_lost)
    ) USING p_platform, p_server;
END
$$;
COMMENT ON FUNCTION public.parley_give_rows IS 'The rows of a table that belong to a server, as JSON.';
REVOKE EXECUTE ON FUNCTION public.parley_give_rows FROM parley_app, parley_admin;
