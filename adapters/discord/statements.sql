-- name: hold_shards
SELECT shard_count, shard_id, seen_id FROM parley_hold_shards(
    p_bot_id => :bot_id, p_holder => :holder, p_lease => :lease, p_shard_count => :count,
    p_shard_ids => CAST(:shard_ids AS int[]), p_held => CAST(:held AS int[]), p_seen => CAST(:seen AS text[]),
    p_claims => :claims, p_unserved => CAST(:unserved AS int[])
);

-- name: release_shards
WITH leaving AS (
    DELETE FROM listeners WHERE bot_id = :bot_id AND holder = :holder
)
UPDATE shards AS shard SET holder = NULL, seen_id = coalesce(held.seen_id, shard.seen_id)
FROM unnest(CAST(:held AS int[]), CAST(:seen AS text[])) AS held(shard_id, seen_id)
WHERE shard.bot_id = :bot_id AND shard.holder = :holder AND shard.shard_id = held.shard_id;

-- name: reserve_session
INSERT INTO discord_sessions AS bucket (bot_id, number, next_start_at)
VALUES (:bot_id, :bucket, clock_timestamp() + :seconds * interval '1 second')
ON CONFLICT (bot_id, number) DO UPDATE SET next_start_at = :seconds * interval '1 second' + CASE
    WHEN bucket.next_start_at > clock_timestamp() + :longest * interval '1 second' THEN clock_timestamp()
    ELSE greatest(bucket.next_start_at, clock_timestamp())
END
RETURNING extract(epoch FROM next_start_at - clock_timestamp()) - :seconds;
