-- name: find_credential
SELECT encrypted FROM credentials WHERE user_id = :user_id AND name = :name;

-- name: store_credential
INSERT INTO credentials (user_id, name, encrypted)
SELECT :user_id, :name, :encrypted
WHERE (SELECT count(*) FROM credentials WHERE user_id = :user_id AND name <> :name) < :most
ON CONFLICT (user_id, name) DO UPDATE SET encrypted = excluded.encrypted, created_at = now()
RETURNING id;

-- name: list_credentials_after
SELECT id, user_id, name, encrypted FROM credentials WHERE id > :after ORDER BY id LIMIT :step;

-- name: replace_credential
UPDATE credentials SET encrypted = :encrypted WHERE id = :id AND encrypted = :old;

-- name: list_credentials
SELECT name, created_at FROM credentials WHERE user_id = :user_id ORDER BY name;

-- name: forget_credential
DELETE FROM credentials WHERE user_id = :user_id AND name = :name RETURNING id;
