-- Returns for how many days memories of a kind are kept on a server, NULL without a limit: the most specific row of
-- memory_retention decides. Direct messages have no server, and follow the rows without a platform.
CREATE FUNCTION public.parley_memory_kept_days(p_kind text, p_platform text, p_server text) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT r.kept_days FROM public.memory_retention AS r
    WHERE r.kind = p_kind AND (r.platform IS NULL OR r.platform = p_platform AND p_server IS NOT NULL)
          AND (r.platform_server_id IS NULL OR r.platform_server_id = p_server)
    ORDER BY r.platform_server_id IS NULL, r.platform IS NULL LIMIT 1
$$;
COMMENT ON FUNCTION public.parley_memory_kept_days IS
    'Returns for how many days memories of a kind are kept on a server (direct messages: without one); NULL: for ever.';
