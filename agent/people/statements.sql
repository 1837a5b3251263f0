-- name: find_user
SELECT * FROM parley_find_user(:sender_platform, :platform_user_id);

-- name: list_modules
SELECT modules FROM parley_list_modules();

-- name: find_persona
-- That of the place, unless the person has chosen another one for the conversation.
SELECT persona.* FROM (
    SELECT chosen.*, 0 AS rank FROM conversations AS place
    CROSS JOIN LATERAL parley_find_chosen_persona(place.chosen_persona_id, :permission) AS chosen
    WHERE place.platform = :platform AND place.platform_server_id IS NOT DISTINCT FROM :server
      AND place.platform_channel_id = :channel AND place.platform_thread_id IS NOT DISTINCT FROM :thread
      AND place.chosen_persona_id IS NOT NULL
    UNION ALL SELECT *, 1 FROM parley_find_persona(NULL, :platform, :server, :channel)
) AS persona ORDER BY rank LIMIT 1;

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
