-- Renews the lease of a process that listens for a bot, and returns the shards that it holds from now on, each with the mark
-- of what was seen; without any, one row whose shard_id is NULL. `shard_count` is the number that is valid for all.
--
-- `p_held` are the shards that it holds, as far as it knows, `p_seen` their marks. It takes `p_claims` more at most, and as
-- long as no other process that is ready has fewer. One that is two ahead of another gives up one at a time, so that
-- shards move one by one; and so it does with one of `p_unserved`, which it can't connect, and with one that an admin
-- wants elsewhere (`left_by`).
--
-- The number of shards changes when all processes want the same: then each shard begins where the one that had seen least
-- has come, because servers move between them.
CREATE FUNCTION public.parley_hold_shards(
    p_bot_id bigint, p_holder text, p_lease double precision, p_shard_count integer, p_shard_ids integer[],
    p_held integer[], p_seen text[], p_claims integer, p_unserved integer[]
) RETURNS TABLE (shard_count integer, shard_id integer, seen_id text)
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
    v_lease interval := p_lease * interval '1 second';
    v_count integer;
    v_seen text;
    v_shard record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('shards ' || p_bot_id, 0));
    v_now := clock_timestamp();
    -- No lease lasts longer than the second time: the database's clock was set back since.
    DELETE FROM public.listeners WHERE bot_id = p_bot_id AND NOT alive_until BETWEEN v_now AND v_now + 2 * v_lease;
    INSERT INTO public.listeners AS listener (bot_id, holder, alive_until, shard_count, shard_ids, is_ready)
    VALUES (p_bot_id, p_holder, v_now + v_lease, p_shard_count, p_shard_ids, p_claims > 0)
    ON CONFLICT (bot_id, holder) DO UPDATE SET alive_until = excluded.alive_until, shard_count = excluded.shard_count,
        shard_ids = excluded.shard_ids, is_ready = excluded.is_ready;

    UPDATE public.shards AS shard SET seen_id = held.seen_id
    FROM unnest(p_held, p_seen) AS held(shard_id, seen_id)
    WHERE shard.bot_id = p_bot_id AND shard.shard_id = held.shard_id AND shard.holder = p_holder
      AND held.seen_id IS DISTINCT FROM shard.seen_id AND held.seen_id IS NOT NULL;
    UPDATE public.shards AS shard SET holder = NULL
    WHERE shard.bot_id = p_bot_id AND shard.holder IS NOT NULL AND (
        shard.holder = p_holder AND NOT shard.shard_id = ANY(p_held)
        OR NOT EXISTS (SELECT FROM public.listeners AS l WHERE l.bot_id = p_bot_id AND l.holder = shard.holder)
    );

    SELECT bot.shard_count INTO v_count FROM public.bots AS bot WHERE bot.id = p_bot_id;
    IF v_count IS DISTINCT FROM p_shard_count AND NOT EXISTS (
        SELECT FROM public.listeners AS l WHERE l.bot_id = p_bot_id AND l.shard_count <> p_shard_count
    ) THEN
        UPDATE public.bots AS bot SET shard_count = p_shard_count WHERE bot.id = p_bot_id;
        SELECT min(shard.seen_id::numeric)::text INTO v_seen FROM public.shards AS shard WHERE shard.bot_id = p_bot_id;
        DELETE FROM public.shards AS shard WHERE shard.bot_id = p_bot_id;
        v_count := p_shard_count;
        INSERT INTO public.shards (bot_id, shard_id, seen_id)
        SELECT p_bot_id, number, v_seen FROM generate_series(0, v_count - 1) AS number;
    END IF;

    FOR v_shard IN
        SELECT shard.id, shard.left_by, shard.shard_id FROM public.shards AS shard
        WHERE shard.bot_id = p_bot_id AND shard.holder IS NULL
          AND (p_shard_ids IS NULL OR shard.shard_id = ANY(p_shard_ids))
        ORDER BY shard.shard_id
    LOOP
        EXIT WHEN p_claims <= 0;
        CONTINUE WHEN EXISTS (
            SELECT FROM public.listeners AS other
            WHERE other.bot_id = p_bot_id AND other.holder <> p_holder AND other.is_ready
              AND (other.shard_ids IS NULL OR v_shard.shard_id = ANY(other.shard_ids))
              AND other.holder IS DISTINCT FROM v_shard.left_by
              AND (v_shard.left_by = p_holder
                   OR public.parley_count_shards(p_bot_id, other.holder) < public.parley_count_shards(p_bot_id, p_holder))
        );
        UPDATE public.shards AS shard SET holder = p_holder, left_by = NULL WHERE shard.id = v_shard.id;
        p_claims := p_claims - 1;
    END LOOP;

    UPDATE public.shards AS shard SET holder = NULL, left_by = p_holder
    WHERE shard.id = (
        SELECT mine.id FROM public.shards AS mine
        JOIN public.listeners AS other ON other.bot_id = p_bot_id AND other.holder <> p_holder AND other.is_ready
            AND (other.shard_ids IS NULL OR mine.shard_id = ANY(other.shard_ids))
        WHERE mine.bot_id = p_bot_id AND mine.holder = p_holder AND (
            mine.shard_id = ANY(p_unserved) OR mine.left_by = p_holder
            OR public.parley_count_shards(p_bot_id, other.holder) + 2 <= public.parley_count_shards(p_bot_id, p_holder)
        )
        -- Direct messages come to shard 0.
        ORDER BY mine.shard_id = ANY(p_unserved) OR mine.left_by IS NOT NULL DESC, mine.shard_id DESC LIMIT 1
    ) AND NOT EXISTS (
        -- One that is free already goes there first.
        SELECT FROM public.shards AS free
        JOIN public.listeners AS taker ON taker.bot_id = p_bot_id AND taker.is_ready
            AND taker.holder IS DISTINCT FROM free.left_by
            AND (taker.shard_ids IS NULL OR free.shard_id = ANY(taker.shard_ids))
        WHERE free.bot_id = p_bot_id AND free.holder IS NULL
    );

    RETURN QUERY
    SELECT v_count, shard.shard_id, shard.seen_id
    FROM (VALUES (p_bot_id)) AS bot(id)
    LEFT JOIN public.shards AS shard ON shard.bot_id = bot.id AND shard.holder = p_holder
    ORDER BY shard.shard_id;
END
$$;
COMMENT ON FUNCTION public.parley_hold_shards IS
    'Renews the lease of a process that listens, and divides a bot''s shards evenly among all that do.';
REVOKE EXECUTE ON FUNCTION public.parley_hold_shards FROM parley_admin;
