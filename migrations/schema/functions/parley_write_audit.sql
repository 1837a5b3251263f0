-- Writes a row of audit_log. Secrets are left out (parley_without_secrets), because the log is never cleared.
--
-- Each row holds the SHA-256 of itself and of the row before, so that a change of the log shows (parley_verify_audit).
-- The lock makes the order of ids the order of commits. For functions with the rights of the owner: nobody else may call it.
CREATE FUNCTION public.parley_write_audit(p_table text, p_row_id bigint, p_action text, p_old jsonb, p_new jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_entry public.audit_log;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('audit_log', 0));
    SELECT hash INTO v_entry.previous_hash FROM public.audit_log ORDER BY id DESC LIMIT 1;
    v_entry.id := nextval(pg_get_serial_sequence('public.audit_log', 'id'));
    v_entry.created_at := clock_timestamp();
    v_entry.table_name := p_table;
    v_entry.row_id := p_row_id;
    v_entry.action := p_action;
    v_entry.old_values := public.parley_without_secrets(p_old, ARRAY[p_table]);
    v_entry.new_values := public.parley_without_secrets(p_new, ARRAY[p_table]);
    v_entry.database_user := session_user;
    v_entry.actor := nullif(current_setting('parley.actor', true), '');
    v_entry.undoes := nullif(current_setting('parley.undoes', true), '')::bigint;
    v_entry.hash := public.parley_audit_hash(v_entry);
    INSERT INTO public.audit_log OVERRIDING SYSTEM VALUE SELECT (v_entry).*;
END
$$;
COMMENT ON FUNCTION public.parley_write_audit IS 'Writes what an admin has changed or read to audit_log.';
REVOKE EXECUTE ON FUNCTION public.parley_write_audit FROM parley_app, parley_admin;
