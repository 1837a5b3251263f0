-- With the rights of its owner: admins change no leases by themselves.
CREATE FUNCTION admin.move_shard(shard integer, platform text DEFAULT 'discord') RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_holders text;
BEGIN
    WITH moved AS (
        UPDATE public.shards AS s SET left_by = s.holder FROM public.bots AS b
        WHERE b.id = s.bot_id AND b.platform = move_shard.platform AND s.shard_id = shard AND s.holder IS NOT NULL
        RETURNING s.left_by
    )
    SELECT string_agg(DISTINCT left_by, ', ') INTO v_holders FROM moved;
    IF v_holders IS NULL THEN
        RAISE EXCEPTION 'no process holds shard % of %', shard, platform
            USING HINT = 'SELECT shard_id, holder FROM shards ORDER BY shard_id shows who holds which.';
    END IF;
    RETURN format('%s gives up shard %s as soon as another process can take it', v_holders, shard);
END
$$;
COMMENT ON FUNCTION admin.move_shard IS 'Has another process hold a shard, if one listens: admin.move_shard(3).';
REVOKE EXECUTE ON FUNCTION admin.move_shard FROM PUBLIC;
GRANT EXECUTE ON FUNCTION admin.move_shard TO parley_admin;
