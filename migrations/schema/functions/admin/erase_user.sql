-- With the rights of its owner, because it counts and asks for what workers do.
CREATE FUNCTION admin.erase_user(platform text, account text, sure boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
    v_is_owner boolean;
BEGIN
    IF NOT sure THEN
        RAISE EXCEPTION '%; say sure => true', admin.describe_erasure(platform, account);
    END IF;
    v_is_owner := EXISTS (SELECT FROM public.users WHERE id = v_id AND 'owner' IN (permission_level, permission_after));
    PERFORM public.parley_check_rank(v_is_owner, true);
    IF v_is_owner AND NOT EXISTS (
        SELECT FROM public.users WHERE permission_level = 'owner' AND permission_until IS NULL AND id <> v_id
    ) THEN
        RAISE EXCEPTION '% is the last owner; make somebody else owner first', account;
    END IF;
    RETURN format('%s is being erased, files in the storage included; SELECT finished_at FROM erasures WHERE id = %s says when it is done', account, public.parley_request_erasure(v_id));
END
$$;
COMMENT ON FUNCTION admin.erase_user IS
    'Erases a person with everything that is kept about them; a worker does it within a minute: admin.erase_user(''discord'', ''ann'', sure => true).';
REVOKE EXECUTE ON FUNCTION admin.erase_user FROM PUBLIC;
GRANT EXECUTE ON FUNCTION admin.erase_user TO parley_admin, parley_app;
