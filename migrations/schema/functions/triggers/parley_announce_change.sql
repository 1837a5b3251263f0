-- Tells every process which table an admin has changed, so that nothing of it is kept in memory: the next message sees the
-- change. Once for each transaction and table, as NOTIFY does with equal notes.
CREATE FUNCTION public.parley_announce_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('parley_changes', TG_TABLE_NAME);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_announce_change IS 'Trigger: tells every process which table has changed.';
