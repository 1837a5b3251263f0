-- name: list_mcp_servers
-- An address may hold a secret, as the entries of the audit would.
SELECT id, name, transport, coalesce(parley_without_secrets(to_jsonb(url), '{mcp_servers,url}') #>> '{}', command) AS target,
       required_permission, enabled, reads_untrusted, reads_private,
       last_connected_at, last_error FROM mcp_servers ORDER BY name;

-- name: list_mcp_tools
-- The newest wording of each tool that a server has listed, with the one that was approved before.
SELECT DISTINCT ON (tool.server_id, tool.name) tool.server_id, tool.name, tool.hash, tool.description, tool.approved,
       tool.last_seen_at, jsonb_pretty(tool.input_schema) AS input_schema, earlier.description AS approved_description,
       jsonb_pretty(earlier.input_schema) AS approved_schema
FROM mcp_tools AS tool LEFT JOIN LATERAL (
    SELECT approved.description, approved.input_schema FROM mcp_tools AS approved
    WHERE approved.server_id = tool.server_id AND approved.name = tool.name AND approved.approved AND approved.id <> tool.id
    ORDER BY approved.last_seen_at DESC LIMIT 1
) AS earlier ON NOT tool.approved
ORDER BY tool.server_id, tool.name, tool.last_seen_at DESC, tool.id DESC;

-- name: list_agents
SELECT id, name, description, permission, persona, persona_id,
       parley_without_secrets(to_jsonb(url), '{agents,url}') #>> '{}' AS url, is_enabled, last_error FROM admin.agents ORDER BY name;

-- name: list_modules
SELECT name, is_enabled, required_permission FROM modules ORDER BY name;

-- name: count_calls
-- By module, as far as they are counted: calls that ran, and those of them that failed.
SELECT split_part(tool, '.', 1) AS module, CAST(sum(calls) AS bigint) AS calls,
       CAST(coalesce(sum(calls) FILTER (WHERE outcome = 'failed'), 0) AS bigint) AS failed
FROM tool_totals WHERE outcome IN ('result', 'failed') GROUP BY 1;

-- name: list_failures
-- The last three calls that failed, of each module and server, with the kind of the error: what it said may be people's words.
SELECT source.name AS source, failure.* FROM unnest(CAST(:sources AS text[])) AS source (name) CROSS JOIN LATERAL (
    SELECT tool_name AS tool, turn_id, created_at, CASE
        WHEN content LIKE '%, "parameters": {%' THEN 'arguments'
        WHEN content LIKE '%, "temporary": true%' THEN 'unreachable'
        WHEN starts_with(content, format('{"error": true, "message": "%s failed unexpectedly."', tool_name)) THEN 'fault'
        ELSE 'refusal'
    END AS kind
    FROM messages
    WHERE split_part(tool_name, '.', 1) = source.name AND outcome = 'failed' ORDER BY id DESC LIMIT 3
) AS failure;

-- name: list_personas_of_modules
-- By module, the personas that allow it by name.
SELECT allowed.name AS module, array_agg(personas.name ORDER BY personas.name) AS personas
FROM personas, jsonb_array_elements_text(personas.allowed_modules) AS allowed (name) GROUP BY allowed.name;

-- name: set_module
SELECT admin.set_module(:name, CAST(:is_enabled AS boolean), CAST(:permission AS text));

-- name: set_mcp_server
SELECT admin.set_mcp_server(:name, CAST(:is_enabled AS boolean), CAST(:permission AS text));

-- name: set_agent
SELECT admin.set_agent(:name, CAST(:is_enabled AS boolean), CAST(:permission AS text));

-- name: approve_mcp_tool
SELECT admin.approve_mcp_tool(:server, :tool, :hash);
