-- name: is_admin
SELECT EXISTS (
    SELECT FROM user_platform_links AS link JOIN users ON users.id = link.user_id
    WHERE link.platform = :platform AND link.platform_user_id = :account
      AND users.permission_level IN ('admin', 'owner')
);

-- name: find_profile
SELECT persona.name, persona.picture AS sha256, uploaded.address
FROM parley_find_persona(NULL, :platform, :server, :channel) AS answering JOIN personas AS persona USING (id)
LEFT JOIN chat_pictures AS uploaded
    ON uploaded.platform = :platform AND uploaded.account = :account AND uploaded.sha256 = persona.picture;

-- name: read_picture
SELECT content, mime_type FROM pictures WHERE sha256 = :sha256;

-- name: store_picture
-- In the place of those that no persona has any more.
WITH removed AS (DELETE FROM chat_pictures AS old WHERE NOT EXISTS (SELECT FROM personas WHERE picture = old.sha256))
INSERT INTO chat_pictures (platform, account, sha256, address) VALUES (:platform, :account, :sha256, :address)
ON CONFLICT (platform, account, sha256) DO UPDATE SET address = excluded.address;
