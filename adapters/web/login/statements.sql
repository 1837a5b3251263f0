-- name: use_link
-- Returns no row for a link that was used before. Those that have expired are refused without it.
WITH expired AS (
    DELETE FROM used_links WHERE expires_at < now() - interval '1 hour'
)
INSERT INTO used_links (nonce, expires_at) VALUES (:nonce, to_timestamp(:until))
ON CONFLICT (nonce) DO NOTHING RETURNING id;

-- name: is_link_used
SELECT EXISTS (SELECT FROM used_links WHERE nonce = :nonce);

-- name: find_person
-- Who has an account, and how the person is called; no row: nobody has it yet.
SELECT users.id AS user_id, coalesce(users.display_name, link.platform_username, link.platform_user_id) AS name
FROM user_platform_links AS link JOIN users ON users.id = link.user_id
WHERE link.platform = :platform AND link.platform_user_id = :account;

-- name: use_session
SELECT id, user_id, account, age FROM parley_use_session(:token_hash, :days);

-- name: begin_session
SELECT parley_begin_session(:platform, :account, CAST(:username AS text), :token_hash, :way, :user_agent, :days);

-- name: end_sessions
SELECT parley_end_sessions(:user_id, CAST(:id AS bigint), CAST(:but AS bigint));

-- name: find_session_user
-- Whose session goes on.
SELECT link.user_id FROM web_sessions AS session JOIN user_platform_links AS link ON link.id = session.link_id
WHERE session.id = :id AND session.ends_at > now();

-- name: link_account
SELECT parley_link_account(:user_id, :platform, :account);

-- name: count_attempt
SELECT parley_count_attempt(:door, :visitor, :most, :seconds);
