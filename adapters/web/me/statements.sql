-- name: list_days
-- What a person has spent on each of the last days, in their time zone, days without anything included.
SELECT CAST(day AS date) AS day, coalesce(spent.tokens, 0) AS tokens, spent.cost
FROM generate_series(
    CAST(now() AT TIME ZONE :zone AS date) - CAST(:days - 1 AS integer), CAST(now() AT TIME ZONE :zone AS date), interval '1 day'
) AS day LEFT JOIN (
    SELECT CAST(created_at AT TIME ZONE :zone AS date) AS on_day, sum(input_tokens + output_tokens) AS tokens,
           sum(cost_estimate) AS cost
    FROM token_logs WHERE user_id = :user_id AND created_at > now() - make_interval(days => CAST(:days + 1 AS integer))
    GROUP BY on_day
) AS spent ON spent.on_day = CAST(day AS date)
ORDER BY day;

-- name: list_limits
-- The limits of this person alone, beside the monthly tokens.
SELECT kind, period, token_limit, cost_limit, tokens_used, cost_used, resets_at FROM parley_read_limits(
    ROW(NULL, NULL, (SELECT array_agg(id) FROM budgets WHERE user_id = :user_id))
) ORDER BY period, kind;

-- name: set_own_limit
-- The audit names who has done it.
SELECT set_config('parley.actor', 'web:' || :account, true), parley_set_own_limit(:user_id, CAST(:tokens AS bigint));

-- name: is_memory_paused
SELECT is_memory_paused FROM users WHERE id = :user_id;

-- name: count_memories
SELECT source, count(*) AS memories FROM memories WHERE user_id = :user_id AND superseded_by IS NULL GROUP BY source;

-- name: list_accounts
SELECT id, platform, coalesce(platform_username, platform_user_id) AS name, platform_user_id AS account, created_at
FROM user_platform_links WHERE user_id = :user_id ORDER BY id LIMIT :limit;

-- name: list_sessions
SELECT session.id, session.login, session.user_agent, session.last_seen_at, session.created_at
FROM web_sessions AS session JOIN user_platform_links AS link ON link.id = session.link_id
WHERE link.user_id = :user_id AND session.ends_at > now() ORDER BY session.last_seen_at DESC, session.id DESC LIMIT :limit;

-- name: list_tokens
SELECT id, name, scopes, expires_at, last_used_at, created_at FROM api_tokens
WHERE user_id = :user_id AND revoked_at IS NULL ORDER BY id DESC LIMIT :limit;

-- name: unlink_account
SELECT parley_unlink_account(:user_id, :id, :account);

-- name: create_token
SELECT admin.create_token('web', :account, :scopes, now() + make_interval(days => :days), :name) AS token;

-- name: revoke_token
SELECT admin.revoke_token(id) FROM api_tokens WHERE id = :id AND user_id = :user_id AND revoked_at IS NULL;
