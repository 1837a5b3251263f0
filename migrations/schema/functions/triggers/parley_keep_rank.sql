-- Trigger: whoever acts for themselves (parley_act_as) changes nothing of somebody above them, by undoing neither.
CREATE FUNCTION public.parley_keep_rank() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    v_old jsonb := to_jsonb(OLD);
    v_new jsonb := to_jsonb(NEW);
    v_levels text[];
    v_raised text[];
    v_raises boolean;
BEGIN
    -- Those that the row names, and those of the people whose account or limit it is.
    SELECT array_agg(named.level) INTO v_levels FROM (VALUES (v_old), (v_new)) AS version (fields)
    LEFT JOIN public.budgets AS budget ON budget.id = (fields ->> 'limit_budget_id')::bigint
    LEFT JOIN public.users AS u
        ON u.id = coalesce((fields ->> 'user_id')::bigint, (fields ->> 'limit_user_id')::bigint, budget.user_id)
    CROSS JOIN LATERAL (VALUES (fields ->> 'permission_level'), (fields ->> 'permission_after'), (budget.permission_level),
        (u.permission_level), (u.permission_after)) AS named (level);
    IF TG_TABLE_NAME = 'user_platform_links' THEN
        v_raised := v_levels;
    ELSIF TG_TABLE_NAME IN ('users', 'role_grants') AND (v_new ->> 'permission_level', v_new ->> 'permission_until')
        IS DISTINCT FROM (v_old ->> 'permission_level', v_old ->> 'permission_until') THEN
        v_raised := ARRAY[v_new ->> 'permission_level', v_new ->> 'permission_after'];
    END IF;
    v_raises := coalesce(v_raised && '{admin,owner}'::text[], false);
    PERFORM public.parley_check_rank('owner' = ANY (v_levels), v_raises);
    IF v_raises AND current_setting('parley.acting_until') <> '' THEN
        RAISE EXCEPTION 'who is admin or owner until a date makes nobody one';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;
COMMENT ON FUNCTION public.parley_keep_rank IS
    'Trigger: an admin who acts changes nothing of an owner, and makes nobody admin without a fresh login, or as admin until a date.';
