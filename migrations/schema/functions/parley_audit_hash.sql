-- The SHA-256 of an entry of audit_log with the hash of the entry before it.
CREATE FUNCTION public.parley_audit_hash(p_entry public.audit_log) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(convert_to(jsonb_build_array(
        encode(p_entry.previous_hash, 'hex'), p_entry.id, extract(epoch FROM p_entry.created_at), p_entry.table_name,
        p_entry.row_id, p_entry.action, p_entry.old_values, p_entry.new_values, p_entry.database_user, p_entry.actor,
        p_entry.undoes
    )::text, 'UTF8'))
$$;
COMMENT ON FUNCTION public.parley_audit_hash IS 'The hash of an entry of audit_log with that of the entry before it.';
-- Views of admin call it with the rights of whoever looks.
GRANT EXECUTE ON FUNCTION public.parley_audit_hash TO parley_readonly;
