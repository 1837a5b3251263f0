-- name: list_offers
-- A person's own hold does not hide the room from them.
SELECT rooms.id, rooms.name, rooms.description, rooms.capacity, rooms.currency, sum(room_rates.price) AS total
FROM rooms
CROSS JOIN generate_series(CAST(:check_in AS date), CAST(:check_out AS date) - 1, interval '1 day') AS night
JOIN room_rates ON room_rates.room_id = rooms.id AND room_rates.days @> CAST(night AS date)
WHERE rooms.is_active AND rooms.capacity >= :guests AND (CAST(:room AS bigint) IS NULL OR rooms.id = :room)
AND NOT EXISTS (
    SELECT FROM bookings
    WHERE bookings.room_id = rooms.id AND bookings.stay && daterange(:check_in, :check_out)
    AND (status = 'booked' OR status = 'held' AND held_until > now() AND user_id IS DISTINCT FROM :user_id)
)
GROUP BY rooms.id
HAVING count(*) = CAST(:check_out AS date) - CAST(:check_in AS date)
AND max(room_rates.min_nights) FILTER (WHERE CAST(night AS date) = :check_in) <= count(*)
ORDER BY total, rooms.name LIMIT :most;

-- name: list_nights
SELECT min(CAST(night AS date)) AS first_night, count(*) AS nights, room_rates.price
FROM generate_series(CAST(:check_in AS date), CAST(:check_out AS date) - 1, interval '1 day') AS night
JOIN room_rates ON room_rates.room_id = :room AND room_rates.days @> CAST(night AS date)
GROUP BY room_rates.id ORDER BY first_night;

-- name: list_rooms
SELECT id, name FROM rooms WHERE is_active ORDER BY name LIMIT 100;

-- name: lock_bookings
-- Serialises the holds of one person, so that their number stays within the limit.
SELECT pg_advisory_xact_lock(hashtextextended('pms_holds', :user_id));

-- name: lock_room
-- Without it, two inserts that wait for each other would be a deadlock.
SELECT id FROM rooms WHERE id = :room_id FOR NO KEY UPDATE;

-- name: end_holds
-- Those in the way of a stay that are over, or the person's own.
UPDATE bookings SET status = 'cancelled'
WHERE room_id = :room_id AND stay && daterange(:check_in, :check_out) AND status = 'held'
AND (held_until <= now() OR user_id = :user_id);

-- name: count_holds
SELECT count(*) FROM bookings WHERE user_id = :user_id AND status = 'held' AND held_until > now();

-- name: add_booking
-- A hold has minutes.
INSERT INTO bookings (room_id, user_id, stay, guests, total, status, held_until)
SELECT :room_id, :user_id, daterange(:check_in, :check_out), :guests, :total,
    CASE WHEN minutes IS NULL THEN 'booked' ELSE 'held' END, now() + minutes * interval '1 minute'
FROM (SELECT CAST(:hold_minutes AS integer) AS minutes) AS hold
RETURNING id, held_until;

-- name: lock_booking
-- Two cancellations, or one beside the end of a hold, follow each other.
SELECT bookings.id, status, rooms.name AS room, lower(stay) AS check_in, upper(stay) AS check_out, guests
FROM bookings JOIN rooms ON rooms.id = room_id
WHERE user_id = :user_id AND bookings.id = :id AND (status = 'booked' OR status = 'held' AND held_until > now())
FOR UPDATE OF bookings;

-- name: cancel_booking
UPDATE bookings SET status = 'cancelled' WHERE id = :id;

-- name: list_bookings
SELECT bookings.id, status, held_until, total, rooms.name AS room, rooms.currency, lower(stay) AS check_in,
    upper(stay) AS check_out, guests
FROM bookings JOIN rooms ON rooms.id = room_id
WHERE user_id = :user_id AND (status = 'booked' OR status = 'held' AND held_until > now())
AND upper(stay) >= current_date
ORDER BY stay, bookings.id LIMIT :most;
