-- name: find_bot
INSERT INTO bots (platform, token_hash) VALUES (:platform, :token_hash)
ON CONFLICT (platform, token_hash) DO UPDATE SET platform = excluded.platform RETURNING id;
