-- name: find_user
SELECT * FROM parley_find_user(:sender_platform, :platform_user_id);

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
