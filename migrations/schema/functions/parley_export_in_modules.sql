-- What modules keep about a person, {name: rows}: what each function `parley_export_in_…(user_id)` of theirs returns.
CREATE FUNCTION public.parley_export_in_modules(p_user_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_function regproc;
    v_part jsonb;
    v_all jsonb := '{}';
BEGIN
    FOR v_function IN
        SELECT p.oid::regproc FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'parley\_export\_in\_%'
              AND p.proname <> 'parley_export_in_modules'
              AND p.proowner = (SELECT c.relowner FROM pg_catalog.pg_class AS c WHERE c.oid = 'public.users'::regclass)
        ORDER BY p.proname
    LOOP
        EXECUTE format('SELECT %s($1)', v_function) INTO v_part USING p_user_id;
        v_all := v_all || v_part;
    END LOOP;
    RETURN v_all;
END
$$;
COMMENT ON FUNCTION public.parley_export_in_modules IS 'What modules keep about a person, {name: rows}.';
