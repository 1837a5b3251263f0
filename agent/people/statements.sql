-- name: find_user
SELECT users.id,
       parley_permission(users.permission_level, users.permission_until, users.permission_after) AS permission_level,
       users.paused_at IS NOT NULL AS is_paused, users.display_name, users.time_zone, users.week_start,
       users.has_memories, link.id AS link_id, link.platform_username
FROM users JOIN user_platform_links AS link ON link.user_id = users.id
WHERE link.platform = :sender_platform AND link.platform_user_id = :platform_user_id;

-- name: find_persona
SELECT * FROM parley_find_persona(NULL, :platform, :server, :channel);

-- name: get_persona
SELECT * FROM parley_find_persona(:id, NULL, NULL, NULL);

-- name: resolve_conversation
-- As for a turn, for a person and a persona that are known.
SELECT * FROM parley_resolve_conversation(
    :platform, :server, :channel, :thread, :is_direct, :user_id, :persona_id, p_is_remembered => true
);

-- name: rename_account
SELECT parley_rename_account(:link_id, :username);

-- name: make_user
SELECT parley_make_user(:platform, :account, :username);

-- name: store_roles
SELECT permission FROM parley_store_roles(:user_id, :platform, :platform_user_id, :server, :roles) AS permission;

-- name: find_paused_server
SELECT id FROM servers WHERE platform = :platform AND platform_server_id = :server AND paused_at IS NOT NULL;
