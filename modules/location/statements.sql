-- name: open_pairing
INSERT INTO location_trackers (user_id, pairing_hash, pairing_until)
VALUES (:user_id, :hash, now() + :minutes * interval '1 minute')
ON CONFLICT (user_id) DO UPDATE SET pairing_hash = excluded.pairing_hash, pairing_until = excluded.pairing_until;

-- name: pair_tracker
UPDATE location_trackers SET password_hash = :password_hash, pairing_hash = NULL, pairing_until = NULL
WHERE pairing_hash = :hash AND pairing_until > now() RETURNING id;

-- name: find_tracker
SELECT id, password_hash FROM location_trackers WHERE id = :id;

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

-- name: save_place
INSERT INTO location_places (user_id, name, latitude, longitude, radius_metres)
SELECT :user_id, :name, :latitude, :longitude, :radius
WHERE (SELECT count(*) FROM location_places WHERE user_id = :user_id) < :most
   OR EXISTS (SELECT FROM location_places WHERE user_id = :user_id AND name = :name)
ON CONFLICT (user_id, name) DO UPDATE SET latitude = excluded.latitude, longitude = excluded.longitude,
    radius_metres = excluded.radius_metres, is_inside = NULL
RETURNING id;

-- name: find_place
SELECT id FROM location_places WHERE user_id = :user_id AND name = :name;

-- name: list_places
SELECT id, name, radius_metres, is_inside FROM location_places WHERE user_id = :user_id ORDER BY name;

-- name: list_coordinates
SELECT name, latitude, longitude FROM location_places WHERE user_id = :user_id;

-- name: delete_place
DELETE FROM location_places WHERE user_id = :user_id AND name = :name RETURNING id;

-- name: find_position
SELECT latitude, longitude, accuracy_metres, recorded_at FROM location_trackers
WHERE user_id = :user_id AND latitude IS NOT NULL;

-- name: list_all_reminders
SELECT reminder.id, name, event, content, author, repeats
FROM location_reminders AS reminder JOIN location_places AS place ON place.id = reminder.place_id
WHERE reminder.user_id = :user_id ORDER BY reminder.id;

-- name: add_reminder
INSERT INTO location_reminders (user_id, place_id, conversation_id, adapter, platform_user_id, event, content, author,
                                repeats)
SELECT :user_id, :place_id, :conversation_id, :adapter, :platform_user_id, :event, :content, :author, :repeats
WHERE (SELECT count(*) FROM location_reminders WHERE user_id = :user_id) < :most RETURNING id;

-- name: delete_reminder
DELETE FROM location_reminders WHERE id = :id AND user_id = :user_id RETURNING id;
