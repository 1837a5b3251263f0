-- name: claim_shard
INSERT INTO shards (bot_id, shard_id, holder, leased_until, seen_id)
SELECT :bot_id, wanted, :holder, clock_timestamp() + :lease * interval '1 second', CAST(:seen AS text)
FROM unnest(CAST(:wanted AS int[])) AS wanted
ON CONFLICT (bot_id, shard_id) DO UPDATE SET holder = excluded.holder, leased_until = excluded.leased_until,
    seen_id = CASE WHEN shards.holder = excluded.holder THEN coalesce(excluded.seen_id, shards.seen_id)
                   ELSE shards.seen_id END
WHERE shards.holder = excluded.holder OR shards.leased_until IS NULL OR shards.leased_until < clock_timestamp()
    -- No lease lasts that long: the database's clock was set back since.
    OR shards.leased_until > clock_timestamp() + 2 * :lease * interval '1 second'
RETURNING shard_id, seen_id;

-- name: release_shard
UPDATE shards SET leased_until = NULL, holder = NULL, seen_id = coalesce(CAST(:seen AS text), seen_id)
WHERE bot_id = :bot_id AND holder = :holder;
