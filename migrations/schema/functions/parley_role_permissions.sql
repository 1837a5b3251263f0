-- The planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_role_permissions(
    p_user_id bigint, p_platform text, p_server text
) RETURNS TABLE (permission_level text)
LANGUAGE sql STABLE AS $$
    SELECT role_grants.permission_level
    FROM public.member_roles JOIN public.role_grants USING (platform, server)
    WHERE member_roles.user_id = p_user_id AND member_roles.platform = p_platform AND member_roles.server = p_server
      AND jsonb_exists(member_roles.roles, role_grants.role) AND role_grants.permission_level IS NOT NULL
$$;
COMMENT ON FUNCTION public.parley_role_permissions IS 'The permissions that a person''s roles give on a server, as last seen there.';
