-- The wording that is approved is named by its hash, so that nobody approves one that came meanwhile.
CREATE FUNCTION admin.approve_mcp_tool(server text, tool text, hash text) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_id bigint := (
        SELECT known.id FROM public.mcp_tools AS known JOIN public.mcp_servers AS owner ON owner.id = known.server_id
        WHERE owner.name = server AND known.name = tool AND known.hash = hash
    );
BEGIN
    IF v_id IS NULL THEN
        RAISE EXCEPTION 'the MCP server % has no tool % in this wording', quote_literal(server), quote_literal(tool);
    END IF;
    UPDATE public.mcp_tools SET approved = true WHERE id = v_id;
    RETURN format('the tool %s.%s is approved', server, tool);
END
$$;
COMMENT ON FUNCTION admin.approve_mcp_tool IS
    'Approves a tool of an MCP server in the wording with this hash: admin.approve_mcp_tool(''tickets'', ''close'', ''9f2c…'').';
