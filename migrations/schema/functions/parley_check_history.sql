-- Refuses to work unless the server is in this history, which the process has noted (parley_note_history): a pooler may lead an
-- open connection to another server, where ids have not leapt yet. Called with the BEGIN of each transaction through a
-- pooler. An error of the state PY003 makes the process ask by its direct connection.
CREATE FUNCTION public.parley_check_history(p_id bigint, p_created_at timestamptz, p_timeline bigint) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_timeline constant bigint := ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
BEGIN
    IF v_timeline <> p_timeline THEN
        RAISE 'timeline %, not %', v_timeline, p_timeline USING ERRCODE = 'PY003';
    END IF;
    IF (p_id, p_created_at) IS DISTINCT FROM (
        SELECT (history.id, history.created_at) FROM public.database_histories AS history ORDER BY history.id DESC LIMIT 1
    ) THEN
        RAISE 'another history' USING ERRCODE = 'PY003';
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_check_history IS
    'Refuses to work where the server is not in this history of the database.';
REVOKE EXECUTE ON FUNCTION public.parley_check_history FROM parley_admin;
