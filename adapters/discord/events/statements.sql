-- name: find_rule
-- The most specific rule applies: thread, channel, server.
WITH rule AS (
    SELECT mode, thread_per_question, answers_others FROM channel_modes
    WHERE platform = 'discord' AND coalesce(platform_server_id, :server) = :server
      AND (platform_channel_id IS NULL OR platform_channel_id IN (:channel, :thread))
    ORDER BY platform_channel_id IS NULL, platform_channel_id <> :thread, platform_server_id IS NULL LIMIT 1
)
SELECT coalesce((SELECT mode FROM rule), 'mention') AS mode,
    coalesce((SELECT thread_per_question FROM rule), false) AS thread_per_question,
    coalesce((SELECT answers_others FROM rule), false) AS answers_others, EXISTS (
    SELECT FROM conversations
    WHERE platform = 'discord' AND platform_server_id IS NOT DISTINCT FROM CAST(:known_server AS text)
      AND platform_channel_id = :channel AND platform_thread_id IS NOT DISTINCT FROM CAST(:known_thread AS text)
) OR EXISTS (
    -- The conversation begins with the first turn; until then its messages wait here.
    SELECT FROM inbox WHERE place_key = :place_key AND status IN ('waiting', 'claimed')
) AS is_known;

-- name: note_direct_channel
INSERT INTO direct_channels (bot_id, platform_channel_id) VALUES (:bot_id, :channel)
ON CONFLICT (bot_id, platform_channel_id) DO UPDATE SET last_active_at = now();

-- name: list_direct_channels
SELECT platform_channel_id FROM direct_channels WHERE bot_id = :bot_id AND last_active_at > now() - interval '30 days'
ORDER BY last_active_at DESC;

-- name: note_server
SELECT parley_note_server('discord', :server, :name, p_welcomes => true) AS is_new;
