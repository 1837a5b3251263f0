-- name: list_persona_models
SELECT DISTINCT default_model FROM personas WHERE default_model IS NOT NULL;

-- name: make_user
SELECT parley_make_user(:platform, :account, :account);

-- name: make_owner
SELECT parley_link_account(id, 'web', :on_the_web),
       CASE WHEN permission_level <> 'owner' THEN parley_set_permission(id, 'owner') END
FROM parley_find_user(:platform, :account);

-- name: find_owner
SELECT admin.users.name, permission FROM admin.users JOIN user_platform_links AS link ON link.user_id = users.id
WHERE link.platform = :platform AND platform_user_id = :account;

-- name: end_grants
-- Permissions that have ended count no more; this only says so in the table.
SELECT parley_end_grants();

-- name: request_dry_run
WITH request AS (INSERT INTO dry_runs (request) VALUES (:request) RETURNING id)
SELECT id, pg_notify('parley_changes', 'dry_runs') FROM request;

-- name: look_at_dry_run
-- `is_lost`: its worker is gone. That somebody waits need not be durable.
WITH reading AS (
    UPDATE dry_runs SET read_at = now() WHERE id = :id AND read_at < now() - interval '1 second'
    RETURNING set_config('synchronous_commit', 'off', true)
)
SELECT (SELECT count(*) FROM reading) AS looks, reply, worker_id IS NOT NULL AND NOT EXISTS (SELECT FROM workers WHERE workers.id = worker_id) AS is_lost
FROM dry_runs WHERE id = :id;

-- name: remove_dry_run
DELETE FROM dry_runs WHERE id = :id;

-- name: name_actor
SELECT set_config('parley.actor', 'cli', true);

-- name: list_users
SELECT id, nullif(name, 'user ' || id) AS name, permission AS permission_level, budget, used, reserved,
       renews_at AS budget_reset_at, time_zone, accounts
FROM admin.users WHERE CAST(:id AS bigint) IS NULL OR id = :id ORDER BY id DESC LIMIT :limit;

-- name: list_names
SELECT DISTINCT name FROM admin.users ORDER BY name LIMIT 10000;

-- name: find_account
SELECT platform, platform_user_id FROM user_platform_links WHERE user_id = :id ORDER BY id LIMIT 1;

-- name: link_account
SELECT parley_link_account(:user_id, :platform, :account, :move);

-- name: set_permission
SELECT parley_set_permission(:user_id, :permission);

-- name: set_budget
SELECT parley_set_budget(:user_id, :budget);

-- name: pause_user
SELECT admin.pause_user(:platform, :account);

-- name: resume_user
SELECT admin.resume_user(:platform, :account);

-- name: set_budget_of_account
SELECT admin.set_budget(:platform, :account, :tokens);

-- name: grant_permission
SELECT admin.grant_permission(:platform, :account, :level, :until);

-- name: list_budgets
SELECT id, name, budget, used, reserved, renews_at FROM admin.users
WHERE CAST(:id AS bigint) IS NULL OR id = :id ORDER BY used DESC, id LIMIT :limit;

-- name: list_limits
SELECT * FROM admin.budgets;

-- name: list_differences
SELECT * FROM parley_budget_differences();

-- name: reconcile
SELECT * FROM parley_reconcile();

-- name: list_grants
SELECT coalesce(name, role) AS who, by, permission, server, budget FROM admin.grants ORDER BY by, who;

-- name: list_changes
SELECT id, to_char(at, 'YYYY-MM-DD HH24:MI') AS at, who, action || ' ' || "table" || ' ' || row_id AS what,
       before, after, undone_by
FROM admin.audit WHERE CAST(:table AS text) IS NULL OR "table" = :table LIMIT :limit;

-- name: undo
SELECT admin.undo(:entry) AS done;

-- name: verify_audit
SELECT entries, last_hash, first_broken FROM parley_verify_audit();

-- name: find_by_hash
SELECT id FROM audit_log WHERE encode(hash, 'hex') = :hash;

-- name: store_persona
SELECT parley_store_persona(:id, CAST(:values AS jsonb));

-- name: list_versions
SELECT version, to_char(at, 'YYYY-MM-DD HH24:MI') AS at, who, action, turns, name, fields
FROM admin.persona_versions WHERE persona_id = admin.find_persona(:name) ORDER BY version;

-- name: roll_back
SELECT admin.rollback_persona(:name, :version);

-- name: explain_turn
SELECT admin.explain_turn(:turn);

-- name: list_skills_of_personas
-- By skill, the personas that list it; a name that is no skill is listed too.
SELECT listed.name, array_agg(personas.name ORDER BY personas.name) AS personas
FROM personas, jsonb_array_elements_text(personas.skills) AS listed(name) GROUP BY listed.name;

-- name: list_mcp_tools
-- The newest version of each tool that an MCP server has listed, and the servers that have listed none.
SELECT DISTINCT ON (server.name, tool.name) server.name AS server, server.transport, server.required_permission,
       server.enabled, server.last_error, tool.name, tool.description, tool.input_schema, tool.approved
FROM mcp_servers AS server LEFT JOIN mcp_tools AS tool ON tool.server_id = server.id
ORDER BY server.name, tool.name, tool.last_seen_at DESC, tool.id DESC;

-- name: read_server
SELECT now() AS now,
       (SELECT default_version FROM pg_available_extensions WHERE name = 'vector') AS available,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS installed;

-- name: read_role
SELECT current_user AS name, rolsuper OR rolbypassrls AS sees_all FROM pg_roles WHERE rolname = current_user;

-- name: compare_ledger
SELECT (SELECT count(*) FROM token_logs) AS calls, (SELECT count(*) FROM parley_budget_differences()) AS different;

-- name: list_waiting_replies
SELECT reply.adapter, count(*) AS replies, max(extract(epoch FROM now() - reply.created_at)) AS age,
       (SELECT max(error) FROM outbox AS failing
        WHERE failing.adapter = reply.adapter AND failing.status IN ('pending', 'claimed')) AS cause
FROM outbox AS reply WHERE status IN ('pending', 'claimed') GROUP BY reply.adapter ORDER BY reply.adapter;

-- name: list_failing_models
-- What only an operator can mend, unless the model has answered since.
SELECT subject AS model, detail AS cause, last_at FROM event_totals
WHERE kind = 'route_failure' AND detail = ANY(CAST(:causes AS text[])) AND last_at > now() - interval '1 hour'
      AND NOT EXISTS (SELECT FROM token_logs WHERE model = subject AND token_logs.created_at > last_at)
ORDER BY subject, detail;

-- name: list_newest_files
SELECT id, minio_key, filename, sha256 FROM (
    SELECT *, sum(size_bytes) OVER (ORDER BY id DESC) AS bytes FROM file_records WHERE status = 'stored'
    ORDER BY id DESC LIMIT 100
) AS newest WHERE bytes <= :bytes;

-- name: list_scripted_agents
SELECT name FROM agents WHERE env ? 'DEBUG_MOCK_RESPONSES' AND is_enabled ORDER BY name;

-- name: list_personas
SELECT name, allowed_modules, default_model FROM personas ORDER BY name;

-- name: list_servers
SELECT 'MCP server' AS kind, name, enabled, last_error, last_connected_at IS NOT NULL AS was_reached,
       (SELECT count(*) FROM mcp_tools WHERE server_id = mcp_servers.id AND NOT approved) AS held_back
FROM mcp_servers
UNION ALL SELECT 'agent', name, is_enabled, last_error, url IS NULL OR card_fetched_at IS NOT NULL, 0 FROM agents
ORDER BY kind DESC, name;

-- name: list_processes
-- No lease lasts longer than the second time: the database's clock was set back since.
SELECT name, store, key_hashes, token_hash FROM processes
WHERE alive_until BETWEEN now() AND now() + 2 * :lease * interval '1 second'
  AND coalesce(id < (SELECT id FROM processes WHERE name = :name), true) ORDER BY id;

-- name: renew_process
WITH dead AS (
    DELETE FROM processes WHERE name <> :name
      AND NOT alive_until BETWEEN now() AND now() + 2 * :lease * interval '1 second'
)
INSERT INTO processes (name, store, key_hashes, token_hash, alive_until)
VALUES (:name, :store, CAST(:key_hashes AS text[]), :token_hash, now() + :lease * interval '1 second')
ON CONFLICT (name) DO UPDATE SET alive_until = excluded.alive_until;

-- name: remove_process
DELETE FROM processes WHERE name = :name;

-- name: read_last_history
SELECT timeline, created_at, replayed_at, lost_answers AS answers, lost_messages AS messages, lost_cost AS cost,
       greatest(0, coalesce(seen_lsn - replayed_lsn, 0)) AS lost_bytes, count(*) OVER () AS histories,
       created_at > now() - interval '30 days' AS is_recent
FROM database_histories ORDER BY id DESC LIMIT 1;

-- name: number_cell
SELECT parley_number_cell(:number, :name);

-- name: read_last_ids
SELECT parley_last_ids();

-- name: pass_ids
SELECT parley_pass_ids(CAST(:last_ids AS jsonb));

-- name: list_cells
SELECT platform, server, state, other_cell FROM admin.cells;

-- name: read_versions
SELECT current_setting('server_version') AS postgres,
       (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector;

-- name: find_user
SELECT id FROM users WHERE id = :id;

-- name: find_owner_of
SELECT user_id FROM user_platform_links WHERE platform = :platform AND platform_user_id = :account;

-- name: find_named
SELECT DISTINCT users.id FROM users LEFT JOIN user_platform_links AS link ON link.user_id = users.id
WHERE lower(users.display_name) = lower(:name) OR lower(link.platform_username) = lower(:name)
ORDER BY users.id LIMIT 10;

-- name: read_personas
SELECT * FROM personas ORDER BY id;

-- name: list_skills
SELECT name, description, body, files, is_enabled FROM skills ORDER BY name;

-- name: add_skill
-- Nothing comes back when there is one of this name already.
INSERT INTO skills (name, description, body, files) VALUES (:name, :description, :body, :files)
ON CONFLICT (name) DO NOTHING RETURNING id;

-- name: delete_skill
DELETE FROM skills WHERE name = :name RETURNING id;

-- name: create_token
SELECT admin.create_token(:platform, :account, :scopes, :expires, :name);

-- name: list_tokens
SELECT id, user_id, person, name, scopes, expires_at, last_used_at, revoked_at FROM admin.tokens ORDER BY id;

-- name: revoke_token
SELECT admin.revoke_token(:token) AS done;

-- name: count_turns_of_persona
SELECT count(*) FROM turns WHERE persona_id = :id;

-- name: delete_persona
SELECT admin.delete_persona(:name, TRUE);

-- name: set_default_persona
-- NULL is the built-in one.
SELECT admin.set_default_persona(:name);
