-- Returns whether anything of a channel is remembered that everybody there may see; for a thread that fewer people read
-- than its channel, also what was said in the thread. Asked before a search, so that it is not made for nothing.
--
-- Runs with the rights of its owner: the turn that asks has not named its person and place yet.
CREATE FUNCTION public.parley_place_has_memories(p_platform text, p_server text, p_channel text, p_thread text)
RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM public.memory_scopes AS s
        WHERE s.user_id IS NULL AND s.scope = 'conversation' AND s.platform = p_platform
              AND s.platform_channel_id = p_channel AND s.platform_server_id = coalesce(p_server, p_channel)
              AND (s.platform_thread_id IS NULL OR s.platform_thread_id = p_thread) AND s.memories > 0
    )
$$;
COMMENT ON FUNCTION public.parley_place_has_memories IS
    'Returns whether anything of a channel is remembered that everybody there may see.';
REVOKE EXECUTE ON FUNCTION public.parley_place_has_memories FROM parley_admin;
