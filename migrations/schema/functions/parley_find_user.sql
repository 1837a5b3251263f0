-- The person with this account, as a turn and a command know them; no row: there is none yet. `has_roles`: whether roles have
-- given them something, which they may have lost since. The planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_find_user(p_platform text, p_account text) RETURNS TABLE (
    id bigint, permission_level text, is_paused boolean, display_name text, time_zone text, week_start text,
    has_memories boolean, link_id bigint, platform_username text, has_roles boolean
)
LANGUAGE sql STABLE AS $$
    SELECT users.id, public.parley_permission(users.permission_level, users.permission_until, users.permission_after),
           users.paused_at IS NOT NULL, users.display_name, users.time_zone, users.week_start, users.has_memories,
           link.id, link.platform_username,
           users.budget_from_roles IS NOT NULL OR EXISTS (
               SELECT FROM public.member_roles WHERE member_roles.user_id = users.id AND member_roles.roles <> '[]'
           )
    FROM public.users JOIN public.user_platform_links AS link ON link.user_id = users.id
    WHERE link.platform = p_platform AND link.platform_user_id = p_account
$$;
COMMENT ON FUNCTION public.parley_find_user IS 'The person with this account; no row: there is none yet.';
REVOKE EXECUTE ON FUNCTION public.parley_find_user FROM parley_admin;
