-- name: slow_down
-- Refusals within a second are one event: calls that were under way together.
WITH old AS (
    DELETE FROM slack_paces WHERE limited_at < now() - interval '1 day'
    AND (team_id, method, platform_channel_id) <> (:team_id, :method, :channel)
)
INSERT INTO slack_paces AS pace (team_id, method, platform_channel_id, next_call_at, distance_seconds)
VALUES (:team_id, :method, :channel, clock_timestamp() + :seconds * interval '1 second', :first)
ON CONFLICT (team_id, method, platform_channel_id) DO UPDATE SET
    next_call_at = greatest(pace.next_call_at, excluded.next_call_at),
    distance_seconds = CASE
        WHEN pace.limited_at < now() - :kept * interval '1 second' THEN excluded.distance_seconds
        WHEN pace.limited_at > now() - interval '1 second' THEN pace.distance_seconds
        ELSE least(:longest, pace.distance_seconds * :growth) END,
    limited_at = now();

-- name: reserve_call
UPDATE slack_paces
SET next_call_at = greatest(next_call_at, clock_timestamp()) + distance_seconds * interval '1 second'
WHERE (team_id, method, platform_channel_id) = (:team_id, :method, :channel)
AND limited_at > now() - :kept * interval '1 second'
AND next_call_at <= clock_timestamp() + :max_wait * interval '1 second'
RETURNING extract(epoch FROM next_call_at - clock_timestamp()) - distance_seconds AS wait,
    extract(epoch FROM now() - limited_at) AS age;

-- name: read_wait
SELECT extract(epoch FROM next_call_at - clock_timestamp()) AS wait, extract(epoch FROM now() - limited_at) AS age
FROM slack_paces
WHERE (team_id, method, platform_channel_id) = (:team_id, :method, :channel)
AND limited_at > now() - :kept * interval '1 second';

-- name: hold_socket
-- No lease lasts longer than the second time: the database's clock was set back since.
WITH dead AS (
    DELETE FROM listeners WHERE bot_id = :bot_id AND holder <> :holder
    AND NOT alive_until BETWEEN now() AND now() + 2 * :lease * interval '1 second'
), own AS (
    INSERT INTO listeners (bot_id, holder, alive_until)
    VALUES (:bot_id, :holder, now() + :lease * interval '1 second')
    ON CONFLICT (bot_id, holder) DO UPDATE SET alive_until = excluded.alive_until RETURNING id
)
SELECT count(older.id) < :most AS has_place
FROM own LEFT JOIN listeners AS older ON older.bot_id = :bot_id AND older.id < own.id
    AND older.alive_until BETWEEN now() AND now() + 2 * :lease * interval '1 second';

-- name: leave_socket
DELETE FROM listeners WHERE bot_id = :bot_id AND holder = :holder;
