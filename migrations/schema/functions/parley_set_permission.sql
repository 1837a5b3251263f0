-- Gives a person a permission, for ever or until a time, after which they have what they had before. What becomes of the
-- budget says the trigger parley_follow_permission. Returns the permission before.
CREATE FUNCTION public.parley_set_permission(p_user_id bigint, p_permission text, p_until timestamptz DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_user public.users;
    v_before text;
BEGIN
    SELECT * INTO v_user FROM public.users WHERE id = p_user_id FOR UPDATE;
    v_before := public.parley_permission(v_user.permission_level, v_user.permission_until, v_user.permission_after);
    PERFORM set_config('parley.is_until', CASE WHEN p_until IS NULL THEN '' ELSE 'yes' END, true);
    UPDATE public.users SET permission_level = p_permission, permission_until = p_until, permission_after = CASE
        WHEN p_until IS NULL THEN NULL
        WHEN permission_until > now() THEN permission_after
        ELSE v_before END
    WHERE id = p_user_id;
    PERFORM set_config('parley.is_until', '', true);
    RETURN v_before;
END
$$;
COMMENT ON FUNCTION public.parley_set_permission IS
    'Gives a person a permission, for ever or until a time, with the budget that belongs to it; returns the one before.';
