-- Trigger: whoever acts for themselves (parley_act_as) changes nothing of somebody above them, by undoing neither.
CREATE FUNCTION public.parley_keep_rank() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    v_old jsonb := to_jsonb(OLD);
    v_new jsonb := to_jsonb(NEW);
    v_levels text[];
    v_raised text[];
BEGIN
    IF TG_TABLE_NAME = 'user_platform_links' THEN
        SELECT array_agg(u.permission_level) INTO v_levels FROM public.users AS u
        WHERE u.id IN ((v_old ->> 'user_id')::bigint, (v_new ->> 'user_id')::bigint);
        v_raised := v_levels;
    ELSE
        v_levels := ARRAY[
            v_old ->> 'permission_level', v_new ->> 'permission_level', v_old ->> 'permission_after', v_new ->> 'permission_after'
        ];
        IF (v_new ->> 'permission_level', v_new ->> 'permission_until')
            IS DISTINCT FROM (v_old ->> 'permission_level', v_old ->> 'permission_until') THEN
            v_raised := ARRAY[v_new ->> 'permission_level', v_new ->> 'permission_after'];
        END IF;
    END IF;
    PERFORM public.parley_check_rank('owner' = ANY (v_levels), coalesce(v_raised && '{admin,owner}'::text[], false));
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END
$$;
COMMENT ON FUNCTION public.parley_keep_rank IS
    'Trigger: an admin who acts changes nothing of an owner, and makes nobody admin without a fresh login.';
