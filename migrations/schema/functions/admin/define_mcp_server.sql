-- A server with a url speaks HTTP, one with a command over pipes. The row is afterwards what the call says: what is not said has
-- its default.
CREATE FUNCTION admin.define_mcp_server(
    name text, command text DEFAULT NULL, args text[] DEFAULT '{}', env jsonb DEFAULT '{}', url text DEFAULT NULL,
    headers jsonb DEFAULT '{}', permission text DEFAULT 'user', read_only_tools text[] DEFAULT '{}',
    tells_nobody_tools text[] DEFAULT '{}', reads_untrusted boolean DEFAULT true, reads_private boolean DEFAULT true,
    timeout_seconds double precision DEFAULT 60, tells_user boolean DEFAULT false, is_enabled boolean DEFAULT true
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_is_new constant boolean := NOT EXISTS (SELECT FROM public.mcp_servers AS server WHERE server.name = name);
BEGIN
    IF num_nonnulls(command, url) <> 1 THEN
        RAISE EXCEPTION 'the MCP server % needs either a command or a url', name;
    END IF;
    INSERT INTO public.mcp_servers (
        name, transport, command, args, env, url, headers, required_permission, read_only_tools, tells_nobody_tools,
        reads_untrusted, reads_private, timeout_seconds, tells_user, enabled
    )
    VALUES (
        name, CASE WHEN url IS NULL THEN 'stdio' ELSE 'http' END, command, to_jsonb(args), env, url, headers, permission,
        to_jsonb(read_only_tools), to_jsonb(tells_nobody_tools), reads_untrusted, reads_private, timeout_seconds,
        tells_user, is_enabled
    )
    ON CONFLICT ON CONSTRAINT uq_mcp_servers_name DO UPDATE SET
        transport = excluded.transport, command = excluded.command, args = excluded.args, env = excluded.env,
        url = excluded.url, headers = excluded.headers, required_permission = excluded.required_permission,
        read_only_tools = excluded.read_only_tools, tells_nobody_tools = excluded.tells_nobody_tools,
        reads_untrusted = excluded.reads_untrusted, reads_private = excluded.reads_private,
        timeout_seconds = excluded.timeout_seconds, tells_user = excluded.tells_user, enabled = excluded.enabled;
    RETURN format('the MCP server %s is %s', name, CASE WHEN v_is_new THEN 'added' ELSE 'changed' END);
END
$$;
COMMENT ON FUNCTION admin.define_mcp_server IS
    'Adds an MCP server, or makes it exactly this: admin.define_mcp_server(''tickets'', url => ''https://tickets.example.org/mcp'').';
