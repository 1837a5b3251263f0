CREATE FUNCTION admin.find_user(platform text, account text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    v_id bigint;
    v_known text;
BEGIN
    SELECT link.user_id INTO v_id FROM public.user_platform_links AS link
    WHERE link.platform = platform AND (link.platform_user_id = account OR lower(link.platform_username) = lower(account))
    ORDER BY link.platform_user_id = account DESC LIMIT 1;
    IF FOUND THEN
        RETURN v_id;
    END IF;
    SELECT string_agg(DISTINCT link.platform, ', ') INTO v_known FROM public.user_platform_links AS link;
    IF NOT EXISTS (SELECT FROM public.user_platform_links AS link WHERE link.platform = platform) THEN
        RAISE EXCEPTION 'nobody has an account on %; there are accounts on: %', platform, coalesce(v_known, 'no platform yet');
    END IF;
    RAISE EXCEPTION '% has no account % that has ever written', platform, account
        USING HINT = 'SELECT id, name, accounts FROM admin.users shows everybody.';
END
$$;
COMMENT ON FUNCTION admin.find_user IS 'The number of a user by an account''s id or name: admin.find_user(''discord'', ''ann'').';
