-- name: list_people
-- The newest first. Names and accounts are looked for in their tables: the view would work out every person before. Words in
-- ASCII are compared without the letters of all languages, which takes a third of the time.
SELECT person.id, person.name, person.permission, person.permission_until, person.budget, person.used, person.accounts,
       person.paused_at, person.created_at
FROM admin.users AS person
WHERE person.id < :before
  AND (CAST(:level AS text) IS NULL OR person.permission = :level)
  AND (CAST(:pattern AS text) IS NULL OR person.id IN (
      SELECT u.id FROM users AS u
      WHERE CASE WHEN :is_ascii THEN u.display_name ILIKE :pattern COLLATE "C" ELSE u.display_name ILIKE :pattern END
      UNION SELECT link.user_id FROM user_platform_links AS link
      WHERE CASE WHEN :is_ascii THEN link.platform_username ILIKE :pattern COLLATE "C" ELSE link.platform_username ILIKE :pattern END
          OR link.platform || ':' || link.platform_user_id ILIKE :pattern COLLATE "C"
      UNION SELECT CAST(:number AS bigint)
  ))
  AND (CAST(:platform AS text) IS NULL OR EXISTS (
      SELECT FROM user_platform_links AS link WHERE link.user_id = person.id AND link.platform = :platform
  ))
ORDER BY person.id DESC LIMIT :limit;

-- name: list_platforms
SELECT DISTINCT platform FROM user_platform_links ORDER BY platform;

-- name: find_person
SELECT person.id, person.name, person.permission, person.permission_until, u.permission_after, person.budget, person.used,
       person.reserved, person.renews_at, person.time_zone, person.is_memory_paused, person.paused_at, person.created_at,
       erasure.created_at AS erasure_at, u.budget_from_roles, u.token_budget_monthly
FROM admin.users AS person JOIN users AS u ON u.id = person.id
LEFT JOIN erasures AS erasure ON erasure.user_id = person.id
WHERE person.id = :id;

-- name: list_accounts
SELECT platform, platform_user_id, platform_username, created_at FROM user_platform_links
WHERE user_id = :id ORDER BY id;

-- name: list_limits
-- One by one: without OFFSET the planner would join the whole view, which works out every limit.
SELECT limits.kind, limits.period, limits.unit, limits.allowed, limits.granted, limits.used
FROM budgets AS own CROSS JOIN LATERAL (
    SELECT standing.* FROM admin.budgets AS standing WHERE standing."table" = 'budgets' AND standing.id = own.id OFFSET 0
) AS limits
WHERE own.user_id = :id ORDER BY limits.period, limits.unit, limits.kind;

-- name: list_grants
-- What was granted on top of the person's own limits, and has not ended.
SELECT more.tokens, more.cost, more.ends_at, limits.kind, limits.period FROM budget_grants AS more
LEFT JOIN budgets AS limits ON limits.id = more.limit_budget_id
WHERE more.status = 'granted' AND more.ends_at > now() AND (more.limit_user_id = :id OR limits.user_id = :id)
ORDER BY more.ends_at;

-- name: read_spend
SELECT count(*) AS calls, coalesce(sum(input_tokens + output_tokens), 0) AS tokens, coalesce(sum(cost_estimate), 0) AS dollars,
       count(*) FILTER (WHERE cost_estimate IS NULL) AS unpriced
FROM token_logs WHERE user_id = :id AND created_at > now() - interval '30 days';

-- name: list_turns
SELECT turn.id, turn.started_at, turn.finished_at - turn.started_at AS took, turn.status, turn.error, turn.model, place.platform,
       place.is_direct, coalesce(server.name, place.platform_server_id) AS server, spent.tokens, spent.dollars
FROM (SELECT own.* FROM turns AS own WHERE own.user_id = :id ORDER BY own.id DESC LIMIT 10) AS turn
JOIN conversations AS place ON place.id = turn.conversation_id
LEFT JOIN servers AS server ON server.platform = place.platform AND server.platform_server_id = place.platform_server_id
LEFT JOIN LATERAL (
    SELECT sum(log.input_tokens + log.output_tokens) AS tokens,
           CASE WHEN bool_and(log.cost_estimate IS NOT NULL) THEN sum(log.cost_estimate) END AS dollars
    FROM token_logs AS log WHERE log.turn_id = turn.id
) AS spent ON true
ORDER BY turn.id DESC;

-- name: describe_erasure
SELECT admin.describe_erasure(:platform, :account);

-- name: set_budget
SELECT admin.set_budget(:platform, :account, CAST(:tokens AS bigint));

-- name: set_limit
SELECT admin.set_limit(
    'person', tokens => CAST(:tokens AS bigint), dollars => CAST(:dollars AS numeric), period => :period,
    platform => :platform, account => :account
);

-- name: grant_permission
SELECT admin.grant_permission(:platform, :account, :permission, CAST(:until AS timestamptz));

-- name: grant_more
SELECT admin.grant_more('users', :id, CAST(:until AS timestamptz), tokens => CAST(:tokens AS bigint));

-- name: pause
SELECT admin.pause_user(:platform, :account);

-- name: resume
SELECT admin.resume_user(:platform, :account);

-- name: erase
SELECT admin.erase_user(:platform, :account, sure => true);
