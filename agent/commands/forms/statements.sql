-- name: act_on_server
SELECT parley_act_on_server(:user_id, :account, :platform, CAST(:server AS text));

-- name: read_latest_entry
SELECT coalesce(max(id), 0) FROM audit_log;

-- name: list_own_entries
-- What this transaction has written into the audit, up to one more than a page has buttons for, in the order of taking it
-- back: the newest first, but a row that was deleted before those that went with it.
SELECT id FROM audit_log WHERE id > :latest AND actor = :account AND action <> 'read'
ORDER BY CASE action WHEN 'delete' THEN id ELSE -id END LIMIT 11;

-- name: undo
SELECT admin.undo(:entry);

-- name: find_account
SELECT user_id FROM user_platform_links WHERE platform = :platform AND platform_user_id = :account;

-- name: read_own_permission
SELECT permission FROM admin.users WHERE id = :user_id;

-- name: find_own
-- What the channel has of its own, which the forms begin with.
SELECT (
    SELECT rule.mode FROM channel_modes AS rule
    WHERE rule.platform = :platform AND rule.platform_server_id = :server AND rule.platform_channel_id = :channel
) AS mode, (
    SELECT persona.name FROM personas AS persona
    WHERE persona.platform = :platform AND persona.platform_server_id = :server AND persona.platform_channel_id = :channel
) AS persona;

-- name: list_personas
SELECT name FROM personas
WHERE NOT is_default AND (:is_everywhere OR platform IS NULL OR (platform, platform_server_id) = (:platform, :server))
ORDER BY name LIMIT :limit;

-- name: list_entries
-- The latest changes that nobody has taken back; with an account only its own.
SELECT entry.id, entry.at, entry.who, entry.action, entry."table", entry.name,
       (SELECT string_agg(key, ', ' ORDER BY key) FROM jsonb_object_keys(entry.after) AS key WHERE entry.action = 'update') AS columns
FROM (
    SELECT log.id FROM audit_log AS log
    WHERE (CAST(:account AS text) IS NULL OR log.actor = :account) AND log.action <> 'read'
      AND NOT EXISTS (SELECT FROM audit_log AS later WHERE later.undoes = log.id)
    ORDER BY log.id DESC LIMIT :limit
) AS shown CROSS JOIN LATERAL (SELECT log.* FROM admin.audit AS log WHERE log.id = shown.id LIMIT 1) AS entry
ORDER BY entry.id DESC;

-- name: pause_person
SELECT admin.pause_user(:platform, :account);

-- name: resume_person
SELECT admin.resume_user(:platform, :account);

-- name: pause_server
SELECT admin.pause_server(:platform, :server);

-- name: resume_server
SELECT admin.resume_server(:platform, :server);

-- name: set_limit
SELECT admin.set_limit(
    :kind, tokens => CAST(:tokens AS bigint), dollars => CAST(:dollars AS numeric), period => :period, platform => :platform,
    account => CAST(:account AS text), server => CAST(:server AS text), channel => CAST(:channel AS text)
);

-- name: grant_permission
SELECT admin.grant_permission(:platform, :account, :permission, CAST(:until AS timestamptz));

-- name: grant_more
SELECT admin.grant_more('users', :user_id, CAST(:until AS timestamptz), tokens => CAST(:tokens AS bigint));

-- name: set_mode
-- Threads and answers to others stay as the channel has them.
SELECT admin.set_channel_mode(
    :platform, :server, :channel, CAST(:mode AS text), coalesce(bool_or(thread_per_question), false),
    coalesce(bool_or(answers_others), false)
)
FROM channel_modes
WHERE platform = :platform AND platform_server_id = :server AND platform_channel_id = :channel;

-- name: bind_persona
SELECT admin.bind_persona(CAST(:persona AS text), :platform, :server, :channel);
