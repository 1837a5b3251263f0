-- name: store_defaults
SELECT parley_store_defaults(:guest_token_budget);

-- name: reserve
SELECT * FROM parley_reserve(
    p_user_id => :user_id, p_turn_id => :turn_id, p_attempt => :attempt, p_tokens => :tokens,
    p_cost => CAST(:cost AS numeric), p_seconds => :seconds
);

-- name: release
SELECT parley_release(p_turn_id => :turn_id);

-- name: abandon
SELECT parley_abandon(p_turn_id => :turn_id, p_model => :model);

-- name: expire_reservations
SELECT parley_expire_reservations();

-- name: get_budget_status
SELECT token_limit + granted.tokens AS budget, tokens_used AS used, tokens_reserved AS reserved, resets_at
FROM parley_read_limits(ROW(CAST(:user_id AS bigint), NULL, NULL))
CROSS JOIN parley_granted(:user_id, NULL, NULL) AS granted;

-- name: find_server_budget_status
SELECT common.token_limit + granted.tokens AS budget, common.tokens_used AS used, common.tokens_reserved AS reserved,
       common.resets_at
FROM servers CROSS JOIN LATERAL parley_read_limits(ROW(NULL, servers.id, NULL)) AS common
CROSS JOIN LATERAL parley_granted(NULL, servers.id, NULL) AS granted
WHERE platform = :platform AND platform_server_id = :server AND common.token_limit IS NOT NULL;

-- name: get_server_spend
SELECT coalesce(sum(input_tokens + output_tokens), 0) AS tokens, coalesce(sum(cost_estimate), 0) AS cost,
       count(DISTINCT token_logs.user_id) AS people
FROM token_logs JOIN conversations ON conversations.id = token_logs.conversation_id
WHERE conversations.platform = :platform AND conversations.platform_server_id = :server
  AND token_logs.created_at > now() - :days * interval '1 day';

-- name: set_server_budget
SELECT admin.set_server_budget(:platform, :server, :budget);

-- name: may_search_by_meaning
SELECT EXISTS (
    SELECT FROM users WHERE id = :user_id AND paused_at IS NULL
        AND parley_refusing_limit(parley_limits_of(ROW(users.id, NULL, NULL, NULL, false)), 0) IS NULL
);
