-- name: reserve_slot
UPDATE bots SET next_request_at = :spacing * interval '1 second' + CASE
    -- No queue is that long: the database's clock was set back since.
    WHEN next_request_at > clock_timestamp() + :longest * interval '1 second' THEN clock_timestamp()
    ELSE greatest(next_request_at, clock_timestamp())
END
WHERE id = :bot_id
RETURNING extract(epoch FROM next_request_at - clock_timestamp());

-- name: reserve_free_slot
UPDATE bots SET next_request_at = clock_timestamp() + :spacing * interval '1 second'
WHERE id = :bot_id
  AND next_request_at NOT BETWEEN clock_timestamp() AND clock_timestamp() + :longest * interval '1 second'
RETURNING id;

-- name: is_free
SELECT next_request_at NOT BETWEEN clock_timestamp() AND clock_timestamp() + :longest * interval '1 second'
FROM bots
WHERE id = :bot_id;
