-- name: count_queues
SELECT (SELECT count(*) FROM inbox WHERE status = 'waiting'),
       (SELECT count(*) FROM turns WHERE status = 'running' AND parent_turn_id IS NULL),
       (SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0) FROM inbox WHERE status = 'waiting'),
       (SELECT count(*) FROM outbox WHERE status = 'failed'),
       parley_count_memories(),
       (SELECT count(*) FROM unremembered_turns);

-- name: count_backlog
SELECT adapter, count(*) AS replies, greatest(0, extract(epoch FROM now() - min(created_at))) AS age
FROM outbox WHERE status IN ('pending', 'claimed') GROUP BY adapter ORDER BY adapter;

-- name: count_failovers
-- The first history is that in which the tables were made.
SELECT greatest(0, count(*) - 1) AS failovers, coalesce(sum(lost_answers), 0) AS answers,
       coalesce(sum(lost_messages), 0) AS messages
FROM database_histories;

-- name: use_token
SELECT user_id, account, accounts, scopes FROM parley_use_token(:token_hash);

-- name: read_picture
-- One that no persona has any more stays for a way back, and is shown to nobody.
SELECT mime_type, content FROM pictures WHERE sha256 = :digest AND EXISTS (SELECT FROM personas WHERE picture = sha256);
