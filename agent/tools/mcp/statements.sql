-- name: list_servers
SELECT
    id, name, transport, command, args, env, url, headers, required_permission, read_only_tools, tells_nobody_tools,
    timeout_seconds, tells_user, reads_untrusted, reads_private, pinned_at IS NULL AS is_new
FROM mcp_servers WHERE enabled ORDER BY name;

-- name: list_approved_tools
SELECT server_id, name, hash FROM mcp_tools WHERE approved;

-- name: claim_first_sight
UPDATE mcp_servers SET pinned_at = now() WHERE id = :server_id AND pinned_at IS NULL RETURNING id;

-- name: pin_tools
INSERT INTO mcp_tools (server_id, name, hash, description, input_schema, approved)
SELECT :server_id, seen.name, seen.hash, seen.description, seen.input_schema, :approved
FROM jsonb_to_recordset(CAST(:seen AS jsonb)) AS seen (name text, hash text, description text, input_schema jsonb)
ORDER BY seen.name
ON CONFLICT (server_id, name, hash) DO UPDATE
    SET last_seen_at = now(), approved = mcp_tools.approved OR excluded.approved
RETURNING name, hash, approved;

-- name: note_connected
UPDATE mcp_servers SET last_connected_at = now(), last_error = :error WHERE id = :server_id;

-- name: note_lost
UPDATE mcp_servers SET last_error = :error WHERE id = :server_id AND last_error IS DISTINCT FROM :error;

-- name: admit_program
SELECT server.required_permission, link.platform, link.platform_user_id
FROM mcp_servers AS server
JOIN mcp_tools AS tool ON tool.server_id = server.id AND tool.name = :name AND tool.hash = :hash AND tool.approved
LEFT JOIN LATERAL (
    SELECT platform, platform_user_id FROM user_platform_links WHERE user_id = :user_id
    ORDER BY platform <> :platform, id LIMIT 1
) AS link ON server.tells_user
WHERE server.id = :server_id AND server.enabled;
