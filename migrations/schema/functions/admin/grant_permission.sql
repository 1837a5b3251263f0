CREATE FUNCTION admin.grant_permission(platform text, account text, permission text, until timestamptz DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
    v_user public.users;
    v_before text;
BEGIN
    IF permission IS NULL OR permission NOT IN ('guest', 'user', 'admin', 'owner') THEN
        RAISE EXCEPTION 'there is no permission %; there are: guest, user, admin, owner', quote_nullable(permission);
    END IF;
    IF until <= now() THEN
        RAISE EXCEPTION 'the end % has passed already', to_char(until, 'YYYY-MM-DD HH24:MI TZ');
    END IF;
    SELECT * INTO v_user FROM public.users WHERE id = v_id FOR UPDATE;
    v_before := public.parley_permission(v_user.permission_level, v_user.permission_until, v_user.permission_after);
    IF until IS NULL THEN
        UPDATE public.users SET permission_level = permission, permission_until = NULL, permission_after = NULL WHERE id = v_id;
        RETURN format('%s is %s now, and was %s', account, permission, v_before);
    END IF;
    UPDATE public.users SET permission_level = permission, permission_until = until, permission_after = CASE
        WHEN v_user.permission_until > now() THEN v_user.permission_after ELSE v_before END
    WHERE id = v_id RETURNING * INTO v_user;
    RETURN format('%s is %s until %s, then %s', account, permission, to_char(until, 'YYYY-MM-DD HH24:MI TZ'), v_user.permission_after);
END
$$;
COMMENT ON FUNCTION admin.grant_permission IS
    'Makes a person guest, user, admin or owner, for ever or until a time: admin.grant_permission(''discord'', ''ann'', ''admin'', now() + interval ''7 days'').';
