-- Stores the roles of an account on a server, and with the person the budget that all of their roles give; for other servers
-- the roles last seen there count. The budget is stored because every model call reads it. Returns what the roles on this
-- server permit.
CREATE FUNCTION public.parley_store_roles(
    p_user_id bigint, p_platform text, p_account text, p_server text, p_roles text[]
) RETURNS SETOF text
LANGUAGE sql
BEGIN ATOMIC
    WITH stored AS (
        INSERT INTO public.member_roles (platform, platform_user_id, server, user_id, roles)
        VALUES (p_platform, p_account, p_server, p_user_id, to_jsonb(p_roles))
        ON CONFLICT (platform, platform_user_id, server)
        DO UPDATE SET roles = excluded.roles, user_id = excluded.user_id
        WHERE member_roles.roles <> excluded.roles OR member_roles.user_id <> excluded.user_id
    ), here AS (
        SELECT permission_level, token_budget FROM public.role_grants
        WHERE platform = p_platform AND server = p_server AND role = ANY (p_roles)
    ), elsewhere AS (
        SELECT role_grants.token_budget FROM public.role_grants JOIN public.member_roles USING (platform, server)
        WHERE member_roles.user_id = p_user_id AND jsonb_exists(member_roles.roles, role_grants.role)
          AND (platform, member_roles.platform_user_id, server) <> (p_platform, p_account, p_server)
    ), best AS (
        SELECT max(token_budget) AS budget
        FROM (SELECT token_budget FROM here UNION ALL SELECT token_budget FROM elsewhere) AS budgets
    ), changed AS (
        UPDATE public.users SET budget_from_roles = best.budget FROM best
        WHERE users.id = p_user_id AND users.budget_from_roles IS DISTINCT FROM best.budget
    )
    SELECT permission_level FROM here WHERE permission_level IS NOT NULL;
END;
COMMENT ON FUNCTION public.parley_store_roles IS
    'Stores the roles of an account on a server and the budget that they give; returns what they permit there.';
