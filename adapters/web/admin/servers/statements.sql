-- name: list_servers
-- The newest first.
SELECT server.id, server.platform, server.platform_server_id, coalesce(server.name, server.platform_server_id) AS name,
       server.paused_at, standing.budget, standing.used, coalesce(mode.mode, 'mention') AS mode, persona.name AS persona
FROM servers AS server CROSS JOIN LATERAL parley_budget(
    server.token_budget_monthly, NULL, server.tokens_used_this_month, server.tokens_reserved, server.budget_reset_at
) AS standing
LEFT JOIN channel_modes AS mode ON mode.platform = server.platform
    AND mode.platform_server_id = server.platform_server_id AND mode.platform_channel_id IS NULL
LEFT JOIN personas AS persona ON persona.platform = server.platform
    AND persona.platform_server_id = server.platform_server_id AND persona.platform_channel_id IS NULL
WHERE server.id < :before AND (
    CAST(:pattern AS text) IS NULL OR server.name ILIKE :pattern OR server.platform_server_id ILIKE :pattern
)
ORDER BY server.id DESC LIMIT :limit;

-- name: find_server
SELECT server.id, server.platform, server.platform_server_id, coalesce(server.name, server.platform_server_id) AS name,
       server.paused_at, server.files_kept_days, server.token_budget_monthly, standing.budget, standing.used,
       standing.resets_at
FROM servers AS server CROSS JOIN LATERAL parley_budget(
    server.token_budget_monthly, NULL, server.tokens_used_this_month, server.tokens_reserved, server.budget_reset_at
) AS standing
WHERE server.id = :id;

-- name: list_channels
-- Where somebody has talked, and those that have something of their own, by their ids.
SELECT channel, max(last_active_at) AS last_active_at, max(mode) AS mode, max(persona) AS persona
FROM (
    SELECT place.platform_channel_id AS channel, place.last_active_at, NULL::text AS mode, NULL::text AS persona
    FROM conversations AS place
    WHERE place.platform = :platform AND place.platform_server_id = :server AND NOT place.is_direct
    UNION ALL
    SELECT rule.platform_channel_id, NULL, rule.mode, NULL FROM channel_modes AS rule
    WHERE rule.platform = :platform AND rule.platform_server_id = :server AND rule.platform_channel_id IS NOT NULL
    UNION ALL
    SELECT own.platform_channel_id, NULL, NULL, own.name FROM personas AS own
    WHERE own.platform = :platform AND own.platform_server_id = :server AND own.platform_channel_id IS NOT NULL
) AS known
WHERE channel > :after GROUP BY channel ORDER BY channel LIMIT :limit;

-- name: explain_place
SELECT what, value, why FROM admin.explain_place(:platform, :server, CAST(:channel AS text));

-- name: find_own
-- What the place has of its own, which its forms begin with.
SELECT rule.mode, coalesce(rule.thread_per_question, false) AS thread_per_question,
       coalesce(rule.answers_others, false) AS answers_others, (
           SELECT persona.name FROM personas AS persona
           WHERE persona.platform = :platform AND persona.platform_server_id = :server
             AND persona.platform_channel_id IS NOT DISTINCT FROM CAST(:channel AS text)
       ) AS persona
FROM (SELECT) AS place LEFT JOIN channel_modes AS rule
    ON rule.platform = :platform AND rule.platform_server_id = :server
    AND rule.platform_channel_id IS NOT DISTINCT FROM CAST(:channel AS text);

-- name: list_personas
SELECT name FROM personas WHERE NOT is_default ORDER BY name;

-- name: pause
SELECT admin.pause_server(:platform, :server);

-- name: resume
SELECT admin.resume_server(:platform, :server);

-- name: set_budget
SELECT admin.set_server_budget(:platform, :server, CAST(:tokens AS bigint));

-- name: set_limit
SELECT admin.set_limit(
    CASE WHEN CAST(:channel AS text) IS NULL THEN 'server' ELSE 'channel' END, tokens => CAST(:tokens AS bigint),
    dollars => CAST(:dollars AS numeric), period => :period, platform => :platform, server => :server,
    channel => CAST(:channel AS text)
);

-- name: set_mode
SELECT admin.set_channel_mode(
    :platform, :server, CAST(:channel AS text), CAST(:mode AS text), :thread_per_question, :answers_others
);

-- name: bind_persona
SELECT admin.bind_persona(CAST(:persona AS text), :platform, :server, CAST(:channel AS text));
