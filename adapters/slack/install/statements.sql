-- name: issue_state
-- Expired states are deleted here.
WITH old AS (DELETE FROM slack_oauth_states WHERE expires_at < now())
INSERT INTO slack_oauth_states (state_hash, expires_at) VALUES (:hash, now() + :seconds * interval '1 second');

-- name: consume_state
DELETE FROM slack_oauth_states WHERE state_hash = :hash RETURNING expires_at > now() AS is_fresh;

-- name: hold_moves
-- A server begins to leave its cell under a lock that this one excludes (parley_begin_departure).
LOCK TABLE inbox IN ROW EXCLUSIVE MODE;

-- name: has_left
SELECT EXISTS (
    SELECT FROM cell_servers
    WHERE platform = 'slack' AND platform_server_id = :team_id AND state IN ('leaving', 'returning', 'moved')
);

-- name: store_installation
INSERT INTO slack_installations (team_id, team_name, enterprise_id, app_id, bot_id, bot_user_id, scopes, token,
                                 installed_by)
SELECT :team_id, :team_name, :enterprise_id, :app_id, :bot_id, :bot_user_id, :scopes, :token, :installed_by
FROM parley_note_server('slack', :team_id, :team_name)
ON CONFLICT (team_id) DO UPDATE SET team_name = excluded.team_name, enterprise_id = excluded.enterprise_id,
    app_id = excluded.app_id, bot_id = excluded.bot_id, bot_user_id = excluded.bot_user_id, scopes = excluded.scopes,
    token = excluded.token, installed_by = excluded.installed_by, installed_at = now(), ended_at = NULL,
    ended_because = NULL;

-- name: find_installation
SELECT team_id, team_name, bot_id, bot_user_id, token FROM slack_installations
WHERE team_id = :team_id AND token IS NOT NULL;

-- name: end_installation
-- Only if the table still holds the refused token: the app may have been installed again.
UPDATE slack_installations SET token = NULL, ended_at = now(), ended_because = :because
WHERE team_id = :team_id AND token = :token RETURNING id;

-- name: wipe_token
UPDATE slack_installations SET token = NULL, ended_at = now(), ended_because = :because
WHERE team_id = :team_id AND token IS NOT NULL;

-- name: list_tokens
SELECT team_id, token FROM slack_installations WHERE token IS NOT NULL ORDER BY id FOR UPDATE;

-- name: replace_token
UPDATE slack_installations SET token = :token WHERE team_id = :team_id;
