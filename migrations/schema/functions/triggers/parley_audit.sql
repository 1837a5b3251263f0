-- Writes one row of audit_log for each row that an admin's statement changes, whoever made it: psql, the program, a person.
--
-- The trigger's arguments say which columns count: 'of' and the columns, or 'without' and those that the program itself keeps.
-- `old_values` and `new_values` of an update hold only what has changed, those of a deletion or an insertion the whole of it;
-- secrets are left out (parley_without_secrets), because the log is never cleared.
-- Each row holds the SHA-256 of itself and of the row before, so that a change of the log shows (parley_verify_audit).
-- The lock makes the order of ids the order of commits. Runs with the rights of its owner: nobody else may write the log.
CREATE FUNCTION public.parley_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_old jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - 'created_at' END;
    v_new jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - 'created_at' END;
    v_row_id bigint := coalesce(v_new, v_old) ->> 'id';
    v_entry public.audit_log;
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
    PERFORM pg_advisory_xact_lock(hashtextextended('audit_log', 0));
    SELECT hash INTO v_entry.previous_hash FROM public.audit_log ORDER BY id DESC LIMIT 1;
    v_entry.id := nextval(pg_get_serial_sequence('public.audit_log', 'id'));
    v_entry.created_at := clock_timestamp();
    v_entry.table_name := TG_TABLE_NAME;
    v_entry.row_id := v_row_id;
    v_entry.action := lower(TG_OP);
    v_entry.old_values := public.parley_without_secrets(v_old, ARRAY[TG_TABLE_NAME::text]);
    v_entry.new_values := public.parley_without_secrets(v_new, ARRAY[TG_TABLE_NAME::text]);
    v_entry.database_user := session_user;
    v_entry.actor := nullif(current_setting('parley.actor', true), '');
    v_entry.undoes := nullif(current_setting('parley.undoes', true), '')::bigint;
    v_entry.hash := public.parley_audit_hash(v_entry);
    INSERT INTO public.audit_log OVERRIDING SYSTEM VALUE SELECT (v_entry).*;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_audit IS 'Trigger: writes what an admin changes to audit_log.';
REVOKE EXECUTE ON FUNCTION public.parley_audit FROM parley_app, parley_admin;
