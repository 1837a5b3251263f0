-- The planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_permissions_in(p_user_id bigint, p_conversation_id bigint) RETURNS TABLE (permission_level text)
LANGUAGE sql STABLE AS $$
    SELECT permission.level
    FROM public.users JOIN public.conversations AS place ON place.id = p_conversation_id
    CROSS JOIN LATERAL (
        SELECT public.parley_permission(users.permission_level, users.permission_until, users.permission_after) AS level
        UNION ALL
        SELECT roles.permission_level
        FROM public.parley_role_permissions(users.id, place.platform, place.platform_server_id) AS roles
    ) AS permission
    WHERE users.id = p_user_id AND users.paused_at IS NULL
$$;
COMMENT ON FUNCTION public.parley_permissions_in IS
    'The permissions that a person has in a place at this moment, their own and those of roles; none while they are paused.';
