-- name: find_bot
INSERT INTO bots (platform, token_hash) VALUES (:platform, :token_hash)
ON CONFLICT (platform, token_hash) DO UPDATE SET platform = excluded.platform RETURNING id;

-- name: was_notified
SELECT EXISTS (
    SELECT FROM outbox JOIN inbox ON inbox.turn_id = outbox.turn_id
    WHERE outbox.status = 'failed' AND outbox.platform = :platform AND outbox.platform_channel_id = :channel
      AND inbox.platform_user_id = :asker AND outbox.created_at > now() - interval '1 day'
);
