-- What admins have set for rooms that are upgraded.

-- What somebody has set for the new room already counts there.
CREATE FUNCTION public.parley_follow_matrix_room(p_old text, p_new text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE public.servers SET platform_server_id = p_new
    WHERE platform = 'matrix' AND platform_server_id = p_old
      AND NOT EXISTS (SELECT FROM public.servers WHERE platform = 'matrix' AND platform_server_id = p_new);
    UPDATE public.channel_modes SET
        platform_server_id = CASE platform_server_id WHEN p_old THEN p_new ELSE platform_server_id END,
        platform_channel_id = CASE platform_channel_id WHEN p_old THEN p_new ELSE platform_channel_id END
    WHERE platform = 'matrix' AND p_old IN (platform_server_id, platform_channel_id) AND NOT EXISTS (
        SELECT FROM public.channel_modes WHERE platform = 'matrix' AND p_new IN (platform_server_id, platform_channel_id)
    );
    UPDATE public.personas SET
        platform_server_id = CASE platform_server_id WHEN p_old THEN p_new ELSE platform_server_id END,
        platform_channel_id = CASE platform_channel_id WHEN p_old THEN p_new ELSE platform_channel_id END
    WHERE platform = 'matrix' AND p_old IN (platform_server_id, platform_channel_id) AND NOT EXISTS (
        SELECT FROM public.personas WHERE platform = 'matrix' AND p_new IN (platform_server_id, platform_channel_id)
    );
    UPDATE public.role_grants SET
        server = CASE server WHEN p_old THEN p_new ELSE server END,
        role = CASE WHEN starts_with(role, p_old || ' ') THEN p_new || substr(role, length(p_old) + 1) ELSE role END
    WHERE platform = 'matrix' AND (server = p_old OR starts_with(role, p_old || ' ')) AND NOT EXISTS (
        SELECT FROM public.role_grants WHERE platform = 'matrix' AND (server = p_new OR starts_with(role, p_new || ' '))
    );
    UPDATE public.budgets SET
        platform_server_id = CASE platform_server_id WHEN p_old THEN p_new ELSE platform_server_id END,
        platform_channel_id = CASE platform_channel_id WHEN p_old THEN p_new ELSE platform_channel_id END,
        role = CASE WHEN starts_with(role, p_old || ' ') THEN p_new || substr(role, length(p_old) + 1) ELSE role END
    WHERE platform = 'matrix' AND (
        p_old IN (platform_server_id, platform_channel_id) OR starts_with(role, p_old || ' ')
    ) AND NOT EXISTS (
        SELECT FROM public.budgets WHERE platform = 'matrix'
          AND (p_new IN (platform_server_id, platform_channel_id) OR starts_with(role, p_new || ' '))
    );
    UPDATE public.memory_retention SET platform_server_id = p_new
    WHERE platform = 'matrix' AND platform_server_id = p_old AND NOT EXISTS (
        SELECT FROM public.memory_retention WHERE platform = 'matrix' AND platform_server_id = p_new
    );
$$;
COMMENT ON FUNCTION public.parley_follow_matrix_room IS
    'Sets for the successor of a room what admins have set for that: modes, personas, roles, budgets.';
REVOKE EXECUTE ON FUNCTION public.parley_follow_matrix_room FROM PUBLIC, parley_admin;
GRANT EXECUTE ON FUNCTION public.parley_follow_matrix_room TO parley_app;
