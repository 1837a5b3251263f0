CREATE FUNCTION admin.delete_mcp_server(server text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM public.mcp_servers WHERE name = server;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no MCP server %; there are: %', quote_literal(server),
            coalesce((SELECT string_agg(name, ', ' ORDER BY name) FROM public.mcp_servers), 'none yet');
    END IF;
    RETURN format('the MCP server %s is deleted', server);
END
$$;
COMMENT ON FUNCTION admin.delete_mcp_server IS 'Deletes an MCP server with what is known of its tools: admin.delete_mcp_server(''tickets'').';
