-- name: read_state
SELECT depth.messages, depth.jobs, depth.replies,
       (SELECT now() - min(waiting.sent_at) FROM inbox AS waiting WHERE waiting.status = 'waiting') AS oldest,
       (SELECT count(*) FROM turns WHERE status = 'running' AND parent_turn_id IS NULL) AS running,
       (SELECT count(*) FROM outbox WHERE status = 'failed') AS failed_replies
FROM admin.queue_depth AS depth;

-- name: read_spend
-- Today and this month where the admin lives. The ledger has no index by time, but its ids are in that order.
WITH begin AS (
    SELECT date_trunc('day', now() AT TIME ZONE :zone) AT TIME ZONE :zone AS today,
           date_trunc('month', now() AT TIME ZONE :zone) AT TIME ZONE :zone AS month
), recent AS (
    SELECT log.created_at >= begin.today AS is_today, log.input_tokens + log.output_tokens AS tokens, log.cost_estimate AS dollars
    FROM begin CROSS JOIN token_logs AS log
    WHERE log.created_at >= begin.month AND log.id > coalesce((
        SELECT older.id FROM token_logs AS older WHERE older.created_at < (SELECT month FROM begin) ORDER BY older.id DESC LIMIT 1
    ), 0)
)
SELECT coalesce(sum(tokens) FILTER (WHERE is_today), 0) AS tokens_today,
       coalesce(sum(dollars) FILTER (WHERE is_today), 0) AS dollars_today,
       coalesce(sum(tokens), 0) AS tokens_month, coalesce(sum(dollars), 0) AS dollars_month,
       count(*) FILTER (WHERE dollars IS NULL) AS unpriced
FROM recent;

-- name: list_limits
-- Those of many people together; each person's own stand on their page.
SELECT kind, name, period, unit, allowed + granted AS whole, used, resets_at FROM admin.budgets
WHERE kind NOT IN ('person', 'own') ORDER BY kind <> 'installation', used / nullif(allowed + granted, 0) DESC NULLS FIRST LIMIT 8;

-- name: list_running
SELECT turn.id, turn.user_id, person.name, place.platform, coalesce(server.name, place.platform_server_id) AS server,
       turn.started_at, now() - turn.started_at AS since, turn.attempt
FROM turns AS turn JOIN conversations AS place ON place.id = turn.conversation_id
LEFT JOIN admin.users AS person ON person.id = turn.user_id
LEFT JOIN servers AS server ON server.platform = place.platform AND server.platform_server_id = place.platform_server_id
WHERE turn.status = 'running' AND turn.parent_turn_id IS NULL ORDER BY turn.started_at LIMIT 10;

-- name: list_failures
-- Of a day. Turns have no index by time, but their ids are in that order.
SELECT turn.id, turn.user_id, person.name, turn.error, turn.cause, turn.finished_at
FROM turns AS turn LEFT JOIN admin.users AS person ON person.id = turn.user_id
WHERE turn.status = 'failed' AND turn.id > coalesce((
    SELECT older.id FROM turns AS older WHERE older.started_at < now() - interval '1 day' ORDER BY older.id DESC LIMIT 1
), 0)
ORDER BY turn.id DESC LIMIT 8;

-- name: list_backlog
SELECT adapter, count(*) AS replies, now() - min(created_at) AS oldest
FROM outbox WHERE status IN ('pending', 'claimed') GROUP BY adapter ORDER BY adapter;

-- name: list_stuck
SELECT what, id, since, detail FROM admin.stuck LIMIT 8;
