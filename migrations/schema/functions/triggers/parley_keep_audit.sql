CREATE FUNCTION public.parley_keep_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is append-only: its entries are neither changed nor deleted';
END
$$;
COMMENT ON FUNCTION public.parley_keep_audit IS 'Trigger: refuses to change audit_log.';
