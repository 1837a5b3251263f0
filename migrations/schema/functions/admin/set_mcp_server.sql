CREATE FUNCTION admin.set_mcp_server(server text, is_enabled boolean DEFAULT NULL, permission text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_row public.mcp_servers;
BEGIN
    IF permission NOT IN ('guest', 'user', 'admin', 'owner') THEN
        RAISE EXCEPTION 'there is no permission %; there are: guest, user, admin, owner', quote_literal(permission);
    END IF;
    UPDATE public.mcp_servers AS known SET enabled = coalesce(is_enabled, known.enabled),
        required_permission = coalesce(permission, known.required_permission)
    WHERE known.name = server RETURNING * INTO v_row;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no MCP server %; there are: %', quote_literal(server),
            coalesce((SELECT string_agg(known.name, ', ' ORDER BY known.name) FROM public.mcp_servers AS known), 'none yet');
    END IF;
    RETURN format('the MCP server %s is %s, for %ss and above', server, CASE WHEN v_row.enabled THEN 'on' ELSE 'off' END,
                  v_row.required_permission);
END
$$;
COMMENT ON FUNCTION admin.set_mcp_server IS
    'Switches an MCP server on or off, and says who may use its tools: admin.set_mcp_server(''tickets'', is_enabled => false).';
