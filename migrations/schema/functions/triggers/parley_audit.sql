-- Writes one row of audit_log for each row that an admin's statement changes, whoever made it: psql, the program, a person.
--
-- The trigger's arguments say which columns count: 'of' and the columns, or 'without' and those that the program itself keeps.
-- `old_values` and `new_values` of an update hold only what has changed, those of a deletion or an insertion the whole of it.
-- Runs with the rights of its owner: nobody else may write the log.
CREATE FUNCTION public.parley_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_old jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - 'created_at' END;
    v_new jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - 'created_at' END;
    v_row_id bigint := coalesce(v_new, v_old) ->> 'id';
BEGIN
    IF current_setting('parley.acting_server', true) <> '' THEN
        PERFORM public.parley_check_reach(TG_TABLE_NAME, v_old, v_new);
    END IF;
    IF TG_ARGV[0] = 'of' THEN
        SELECT jsonb_object_agg(key, value) INTO v_old FROM jsonb_each(v_old) WHERE key = ANY (TG_ARGV[1:]);
        SELECT jsonb_object_agg(key, value) INTO v_new FROM jsonb_each(v_new) WHERE key = ANY (TG_ARGV[1:]);
    ELSE
        v_old := v_old - TG_ARGV[1:];
        v_new := v_new - TG_ARGV[1:];
    END IF;
    IF TG_OP = 'UPDATE' THEN
        SELECT jsonb_object_agg(before.key, before.value), jsonb_object_agg(before.key, after.value) INTO v_old, v_new
        FROM jsonb_each(v_old) AS before JOIN jsonb_each(v_new) AS after USING (key)
        WHERE before.value IS DISTINCT FROM after.value;
        IF v_old IS NULL THEN
            RETURN NULL;
        END IF;
    END IF;
    PERFORM public.parley_write_audit(TG_TABLE_NAME::text, v_row_id, lower(TG_OP), v_old, v_new);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_audit IS 'Trigger: writes what an admin changes to audit_log.';
REVOKE EXECUTE ON FUNCTION public.parley_audit FROM parley_app, parley_admin;
