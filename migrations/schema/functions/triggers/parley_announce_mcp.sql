CREATE FUNCTION public.parley_announce_mcp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('parley_mcp', '');
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_announce_mcp IS 'Trigger: tells every process that an MCP server or its tools have changed.';
