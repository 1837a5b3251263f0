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
