-- name: find_participants
-- The user, the persona and the conversation of a message, which is made if there is none. Nothing is found of an account
-- that is not known yet. It does not wait for the disk: the begin of the turn, which follows, flushes the conversation and
-- the drawn turn id too.
WITH identity AS (
    SELECT users.id, parley_permission(users.permission_level, users.permission_until, users.permission_after) AS level,
           users.paused_at IS NOT NULL AS is_paused, users.display_name, users.time_zone, users.week_start,
           users.has_memories, link.id AS link_id, link.platform_username,
           -- Whether roles have given the person something, which they may have lost since.
           users.budget_from_roles IS NOT NULL OR EXISTS (
               SELECT FROM member_roles WHERE member_roles.user_id = users.id AND member_roles.roles <> '[]'
           ) AS has_roles
    FROM users JOIN user_platform_links AS link ON link.user_id = users.id
    WHERE link.platform = :sender_platform AND link.platform_user_id = :platform_user_id
), persona AS (
    SELECT * FROM parley_find_persona(NULL, :platform, :server, :channel)
), conversation AS MATERIALIZED (
    SELECT place.* FROM identity LEFT JOIN persona ON true
    CROSS JOIN LATERAL parley_resolve_conversation(
        :platform, :server, :channel, :thread, CAST(:is_direct AS boolean), identity.id, persona.id,
        CAST(:is_remembered AS boolean)
    ) AS place
)
SELECT identity.id AS identity_id, identity.level AS identity_permission_level,
       identity.is_paused AS identity_is_paused, identity.display_name AS identity_display_name,
       identity.time_zone AS identity_time_zone, identity.week_start AS identity_week_start,
       identity.has_memories AS identity_has_memories, identity.link_id AS identity_link_id,
       identity.platform_username AS identity_platform_username, identity.has_roles AS identity_has_roles,
       persona.id AS persona_id, persona.name AS persona_name, persona.system_prompt AS persona_system_prompt,
       persona.allowed_modules AS persona_allowed_modules, persona.default_model AS persona_default_model,
       persona.max_tokens_per_request AS persona_max_tokens_per_request,
       persona.max_temperature AS persona_max_temperature, persona.max_iterations AS persona_max_iterations,
       persona.loop_mode AS persona_loop_mode, persona.skills AS persona_skills,
       persona.stored_skills AS persona_stored_skills, persona.version_id AS persona_version_id,
       persona.chosen_by AS persona_chosen_by,
       conversation.id AS conversation_id, conversation.summary AS conversation_summary,
       conversation.window_turn_id AS conversation_window_turn_id,
       conversation.summarized_turn_id AS conversation_summarized_turn_id,
       conversation.owner_id AS conversation_owner_id, conversation.is_new AS conversation_is_new,
       -- Whoever has memories of their own is recalled those of the place with them.
       NOT (identity.has_memories OR CAST(:is_direct AS boolean))
           AND parley_place_has_memories(:platform, :server, :channel, :memory_thread) AS place_has_memories,
       EXISTS (
           SELECT FROM servers WHERE platform = :platform AND platform_server_id = :server AND paused_at IS NOT NULL
       ) AS is_server_paused,
       nextval('turns_id_seq') AS turn_id,
       (SELECT jsonb_agg(jsonb_build_array(name, description, required_permission, persona_id, peers, env <> '{}') ORDER BY name)
        FROM agents WHERE is_enabled) AS agents,
       set_config('synchronous_commit', 'off', true) AS not_synced
FROM identity LEFT JOIN persona ON true LEFT JOIN conversation ON true;

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
-- As in `find_participants`, for a person and a persona that are known.
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
