-- name: list_mcp_servers
SELECT id, name, transport, coalesce(url, command) AS target, required_permission, enabled, reads_untrusted, reads_private,
       last_connected_at, last_error FROM mcp_servers ORDER BY name;

-- name: list_mcp_tools
-- The newest wording of each tool that a server has listed, with the one that was approved before.
SELECT DISTINCT ON (tool.server_id, tool.name) tool.server_id, tool.name, tool.hash, tool.description, tool.approved,
       tool.last_seen_at, (
           SELECT earlier.description FROM mcp_tools AS earlier
           WHERE earlier.server_id = tool.server_id AND earlier.name = tool.name AND earlier.approved AND earlier.id <> tool.id
           ORDER BY earlier.last_seen_at DESC LIMIT 1
       ) AS approved_description
FROM mcp_tools AS tool ORDER BY tool.server_id, tool.name, tool.last_seen_at DESC, tool.id DESC;

-- name: list_agents
SELECT id, name, description, permission, persona, persona_id, url, is_enabled, last_error FROM admin.agents ORDER BY name;

-- name: list_personas_of_modules
-- By module, the personas that allow it by name.
SELECT allowed.name AS module, array_agg(personas.name ORDER BY personas.name) AS personas
FROM personas, jsonb_array_elements_text(personas.allowed_modules) AS allowed (name) GROUP BY allowed.name;

-- name: set_mcp_server
SELECT admin.set_mcp_server(:name, CAST(:is_enabled AS boolean), CAST(:permission AS text));

-- name: set_agent
SELECT admin.set_agent(:name, CAST(:is_enabled AS boolean), CAST(:permission AS text));

-- name: approve_mcp_tool
SELECT admin.approve_mcp_tool(:server, :tool, :hash);
