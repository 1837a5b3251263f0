-- name: read_own_name
SELECT name FROM own_cell;

-- name: act_as_mover
-- It sees all rows, and the log of changes names it. One cell waits while the other one works.
SELECT set_config('parley.rows', 'all', false), set_config('parley.actor', 'parley server move', false),
       set_config('lock_timeout', '4s', false), set_config('idle_in_transaction_session_timeout', '0', false);

-- name: list_routes
SELECT platform, platform_server_id, state, other_cell FROM cell_servers;

-- name: read_state
SELECT state, other_cell FROM cell_servers WHERE platform = :platform AND platform_server_id = :server;

-- name: lock_server
-- In the first cell, until the connection ends, with whoever has it.
SELECT pg_try_advisory_lock(hashtextextended(
    'server move ' || CAST(:platform AS text) || ' ' || CAST(:server AS text), 0
)) AS is_ours;

-- name: lock_state
SELECT state FROM cell_servers WHERE platform = :platform AND platform_server_id = :server FOR UPDATE;

-- name: list_processes_alive
SELECT name, store, key_hashes FROM processes WHERE alive_until > now() ORDER BY id;

-- name: count_workers_alive
SELECT count(*) FROM workers WHERE last_heartbeat > now() - interval '30 seconds';

-- name: list_revisions
-- Of the tables, and of those of platforms and modules.
SELECT version_num AS revision FROM alembic_version
UNION ALL SELECT owner || ' ' || file FROM schema_history ORDER BY 1;

-- name: count_rows
SELECT name, rows, is_lost FROM parley_count_server(:platform, :server);

-- name: list_unknown_tables
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
    AND relname NOT IN (SELECT name FROM parley_server_tables()) ORDER BY relname;

-- name: count_conversations
SELECT count(*) FROM conversations WHERE platform = :platform AND platform_server_id = :server;

-- name: begin_arrival
SELECT parley_begin_arrival(:platform, :server, :other);

-- name: begin_departure
SELECT parley_begin_departure(:platform, :server, :other);

-- name: settle
SELECT name, rows FROM parley_settle_server(:platform, :server);

-- name: read_last_ids
SELECT parley_last_ids();

-- name: pass_ids
SELECT parley_pass_ids(CAST(:last_ids AS jsonb));

-- name: give_people
SELECT parley_give_people(:platform, :server);

-- name: take_people
SELECT parley_take_people(:platform, CAST(:people AS jsonb));

-- name: give_personas
-- Those that stay, by number: in the other cell one of the same name stands for each.
SELECT coalesce(jsonb_object_agg(id, name), '{}') FROM personas
WHERE (platform, platform_server_id) IS DISTINCT FROM (CAST(:platform AS text), CAST(:server AS text));

-- name: take_personas
-- One that answers for another server is not of the same name, but that server's own.
SELECT coalesce(jsonb_object_agg(key, personas.id), '{}')
FROM jsonb_each_text(CAST(:names AS jsonb)) JOIN personas ON personas.name = value
WHERE personas.platform_server_id IS NULL;

-- name: list_moving_tables
SELECT name FROM parley_server_tables() WHERE condition IS NOT NULL AND NOT is_lost ORDER BY number;

-- name: make_room_for_rows
CREATE TEMPORARY TABLE moving_rows (data jsonb NOT NULL) ON COMMIT DROP;

-- name: remove_empty_server
-- What a door that met the server has noted before it came.
DELETE FROM servers WHERE platform = :platform AND platform_server_id = :server
    AND num_nonnulls(token_budget_monthly, files_kept_days, paused_at) = 0;

-- name: give_rows
SELECT parley_give_rows(:table, :platform, :server);

-- name: take_rows
SELECT parley_take_rows(:table, CAST(:people AS jsonb), CAST(:personas AS jsonb));

-- name: remove_server
SELECT parley_remove_server(:platform, :server);

-- name: end_arrival
SELECT parley_end_arrival(:platform, :server);

-- name: end_departure
SELECT parley_end_departure(:platform, :server);
