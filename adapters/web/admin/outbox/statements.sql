-- name: list_failed
SELECT reply.id, reply.turn_id, reply.adapter, reply.platform, reply.platform_server_id AS server,
       reply.platform_channel_id AS channel, reply.is_direct, reply.attempts, reply.error, reply.created_at,
       coalesce(reply.tried_at, reply.created_at) AS tried_at, turn.name
FROM outbox AS reply LEFT JOIN LATERAL (
    SELECT person.name FROM turns JOIN admin.users AS person ON person.id = turns.user_id WHERE turns.id = reply.turn_id
) AS turn ON true
WHERE reply.status = 'failed' AND reply.id < :before ORDER BY reply.id DESC LIMIT :rows;

-- name: list_waiting
SELECT reply.id, reply.turn_id, reply.adapter, reply.platform, reply.platform_server_id AS server,
       reply.platform_channel_id AS channel, reply.is_direct, reply.status, reply.attempts, reply.error, reply.created_at,
       now() - reply.created_at AS waits
FROM outbox AS reply WHERE reply.status IN ('pending', 'claimed') ORDER BY reply.id LIMIT :rows;

-- name: list_outages
SELECT adapter, scope, is_down, failures, next_probe_at, error, created_at FROM delivery_outages ORDER BY adapter, scope;

-- name: count_replies
SELECT count(*) FILTER (WHERE status = 'failed') AS failed, count(*) FILTER (WHERE status <> 'failed') AS waiting
FROM outbox WHERE status IN ('failed', 'pending', 'claimed');

-- name: retry_replies
SELECT admin.retry_replies(CAST(:reply AS bigint));
