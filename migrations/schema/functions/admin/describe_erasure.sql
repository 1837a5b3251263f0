-- With the rights of its owner, because it counts what belongs to somebody.
CREATE FUNCTION admin.describe_erasure(platform text, account text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    RETURN format(
        'this can''t be undone: %s turns, %s memories and %s files of %s (user %s) go',
        (SELECT count(*) FROM public.turns WHERE user_id = v_id), (SELECT count(*) FROM public.memories WHERE user_id = v_id),
        (SELECT count(*) FROM public.file_records WHERE user_id = v_id), account, v_id
    );
END
$$;
COMMENT ON FUNCTION admin.describe_erasure IS 'What admin.erase_user would erase: admin.describe_erasure(''discord'', ''ann'').';
REVOKE EXECUTE ON FUNCTION admin.describe_erasure FROM PUBLIC;
GRANT EXECUTE ON FUNCTION admin.describe_erasure TO parley_admin, parley_app;
