-- How many shards of a bot a process holds.
CREATE FUNCTION public.parley_count_shards(p_bot_id bigint, p_holder text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM public.shards AS shard WHERE shard.bot_id = p_bot_id AND shard.holder = p_holder
$$;
COMMENT ON FUNCTION public.parley_count_shards IS 'How many shards of a bot a process holds.';
