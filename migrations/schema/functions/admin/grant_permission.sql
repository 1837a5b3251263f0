CREATE FUNCTION admin.grant_permission(platform text, account text, permission text, until timestamptz DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
    v_before text;
BEGIN
    IF permission IS NULL OR permission NOT IN ('guest', 'user', 'admin', 'owner') THEN
        RAISE EXCEPTION 'there is no permission %; there are: guest, user, admin, owner', quote_nullable(permission);
    END IF;
    IF until <= now() THEN
        RAISE EXCEPTION 'the end % has passed already', to_char(until, 'YYYY-MM-DD HH24:MI TZ');
    END IF;
    v_before := public.parley_set_permission(v_id, permission, until);
    IF until IS NULL THEN
        RETURN format('%s is %s now, and was %s', account, permission, v_before);
    END IF;
    RETURN format('%s is %s until %s, then %s', account, permission, to_char(until, 'YYYY-MM-DD HH24:MI TZ'), (
        SELECT permission_after FROM public.users WHERE id = v_id
    ));
END
$$;
COMMENT ON FUNCTION admin.grant_permission IS
    'Makes a person guest, user, admin or owner, for ever or until a time: admin.grant_permission(''discord'', ''ann'', ''admin'', now() + interval ''7 days'').';
