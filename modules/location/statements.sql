-- name: open_pairing
INSERT INTO location_trackers (user_id, pairing_hash, pairing_until)
VALUES (:user_id, :hash, now() + :minutes * interval '1 minute')
ON CONFLICT (user_id) DO UPDATE SET pairing_hash = excluded.pairing_hash, pairing_until = excluded.pairing_until;

-- name: pair_tracker
UPDATE location_trackers SET password_hash = :password_hash, pairing_hash = NULL, pairing_until = NULL
WHERE pairing_hash = :hash AND pairing_until > now() RETURNING id;

-- name: move_tracker
UPDATE location_trackers SET latitude = :latitude, longitude = :longitude, accuracy_metres = :accuracy,
    recorded_at = :recorded_at
WHERE id = :id AND (recorded_at IS NULL OR recorded_at < :recorded_at) RETURNING user_id;

-- name: lock_places
SELECT * FROM location_places WHERE user_id = :user_id ORDER BY name FOR UPDATE;

-- name: note_side
UPDATE location_places SET is_inside = :is_inside WHERE id = :id;

-- name: list_reminders
SELECT reminder.*, platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct
FROM location_reminders AS reminder JOIN conversations ON conversations.id = reminder.conversation_id
WHERE place_id = :place_id AND event = :event ORDER BY reminder.id;

-- name: end_reminder
DELETE FROM location_reminders WHERE id = :id AND NOT repeats;
