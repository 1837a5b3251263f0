-- name: find_limit
-- With the server that it belongs to; of a limit of tokens and dollars the one that is fuller.
SELECT "table", id, kind, name, period, unit, allowed + granted AS whole, used, resets_at, platform, server
FROM admin.budgets WHERE "table" = :table AND id = :id
ORDER BY used / nullif(allowed + granted, 0) DESC NULLS LAST LIMIT 1;

-- name: find_exhausted_limit
-- The one that refuses a person in a place; what they have set for themselves comes last.
SELECT "table", id, kind, name, period, unit, allowed + granted AS whole, used, resets_at, platform, server
FROM admin.budgets WHERE used >= allowed + granted AND (
    ("table" = 'users' AND id = :user_id)
    OR ("table" = 'servers' AND platform = :platform AND server = :server)
    OR ("table" = 'budgets' AND id IN (
        SELECT unnest(parley_find_budgets(:user_id, place.id, place.persona_id)) FROM conversations AS place
        WHERE place.platform = :platform AND place.platform_server_id IS NOT DISTINCT FROM :server
          AND place.platform_channel_id = :channel AND place.platform_thread_id IS NOT DISTINCT FROM :thread
    ))
)
ORDER BY kind = 'own', array_position(ARRAY['users', 'servers', 'budgets'], "table"), id LIMIT 1;

-- name: take_notices
SELECT * FROM parley_take_notices(20);

-- name: find_last_place
-- Where a person last wrote directly, with the account and the adapter.
SELECT inbox.adapter, inbox.platform_user_id, inbox.platform_username, place.platform, place.platform_server_id,
       place.platform_channel_id, place.platform_thread_id, place.is_direct, now() AS told_at
FROM conversations AS place JOIN turns ON turns.conversation_id = place.id JOIN inbox ON inbox.turn_id = turns.id
JOIN user_platform_links AS link ON link.user_id = :user_id AND link.platform = inbox.platform
    AND link.platform_user_id = inbox.platform_user_id
WHERE place.is_direct AND place.user_id = :user_id AND inbox.adapter <> ALL(:unread)
ORDER BY turns.id DESC LIMIT 1;

-- name: list_approvers
SELECT id FROM admin.users WHERE permission IN ('admin', 'owner') AND paused_at IS NULL ORDER BY permission DESC, id;

-- name: list_owners
SELECT id FROM admin.users WHERE permission = 'owner' ORDER BY id;

-- name: find_open_request
-- A person has one open request for a limit; asking again asks nobody a second time, on the day of a refusal either.
SELECT id, status FROM budget_grants
WHERE asked_by_id = :user_id AND (status = 'asked' OR status = 'refused' AND decided_at > now() - interval '1 day')
  AND CASE :table WHEN 'users' THEN limit_user_id WHEN 'servers' THEN limit_server_id ELSE limit_budget_id END = :id
ORDER BY id DESC LIMIT 1;

-- name: add_request
SELECT parley_ask_for_more(:user_id, :table, :id, :tokens, CAST(:cost AS numeric));

-- name: find_request
SELECT id, limit_user_id, limit_server_id, limit_budget_id, tokens, cost, asked_by_id FROM budget_grants
WHERE id = :id AND status = 'asked' FOR UPDATE;

-- name: list_requests
SELECT id FROM budget_grants WHERE status = 'asked' ORDER BY id DESC LIMIT :limit;

-- name: decide_request
SELECT ends_at FROM parley_decide_request(
    :id, :is_granted, :tokens, CAST(:cost AS numeric),
    coalesce(now() + CAST(:days AS int) * interval '1 day', CAST(:resets_at AS timestamptz)), :by
);

-- name: read_permission
SELECT permission FROM admin.users WHERE id = :id;

-- name: name_actor
SELECT set_config('parley.actor', :actor, true);
