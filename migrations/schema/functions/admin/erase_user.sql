-- With the rights of its owner, because it counts and asks for what workers do.
CREATE FUNCTION admin.erase_user(platform text, account text, sure boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    IF NOT sure THEN
        RAISE EXCEPTION 'this can''t be undone: % turns, % memories and % files of % (user %) go; say sure => true',
            (SELECT count(*) FROM public.turns WHERE user_id = v_id), (SELECT count(*) FROM public.memories WHERE user_id = v_id),
            (SELECT count(*) FROM public.file_records WHERE user_id = v_id), account, v_id;
    END IF;
    IF EXISTS (SELECT FROM public.users WHERE id = v_id AND permission_level = 'owner') AND NOT EXISTS (
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
GRANT EXECUTE ON FUNCTION admin.erase_user TO parley_admin;
