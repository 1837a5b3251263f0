-- name: note_direct_channel
INSERT INTO direct_channels (bot_id, platform_channel_id) VALUES (:bot_id, :channel)
ON CONFLICT (bot_id, platform_channel_id) DO UPDATE SET last_active_at = now();

-- name: list_direct_channels
SELECT platform_channel_id FROM direct_channels WHERE bot_id = :bot_id AND last_active_at > now() - interval '30 days'
ORDER BY last_active_at DESC;

-- name: note_server
SELECT parley_note_server('discord', :server, :name, p_welcomes => true) AS is_new;
