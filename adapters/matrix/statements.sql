-- name: take_lease
-- Returns a row only to the process that may listen.
INSERT INTO matrix_listeners AS listener (account, holder, leased_until)
VALUES (:account, :holder, now() + :lease * interval '1 second')
ON CONFLICT (account) DO UPDATE SET holder = excluded.holder, leased_until = excluded.leased_until
WHERE listener.holder = excluded.holder OR listener.leased_until < now()
   -- Nobody holds it for longer: the database's clock was set back since.
   OR listener.leased_until > now() + 2 * :lease * interval '1 second'
RETURNING sync_token;

-- name: note_token
UPDATE matrix_listeners SET sync_token = :token WHERE account = :account AND holder = :holder RETURNING account;

-- name: release_lease
UPDATE matrix_listeners SET leased_until = now() - interval '1 second' WHERE account = :account AND holder = :holder
RETURNING account;

-- name: store_buttons
WITH old AS (DELETE FROM matrix_buttons WHERE created_at < now() - interval '2 days')
INSERT INTO matrix_buttons (event_id, room, thread, buttons)
VALUES (:event_id, :room, :thread, CAST(:buttons AS jsonb))
ON CONFLICT (event_id) DO UPDATE SET buttons = excluded.buttons;

-- name: find_button
SELECT thread, buttons ->> :emoji AS button FROM matrix_buttons WHERE event_id = :event_id AND room = :room;

-- name: delete_buttons
DELETE FROM matrix_buttons WHERE event_id = :event_id;

-- name: is_admin
SELECT EXISTS (
    SELECT FROM user_platform_links AS link JOIN users ON users.id = link.user_id
    WHERE link.platform = 'matrix' AND link.platform_user_id = :account
      AND users.permission_level IN ('admin', 'owner')
);
