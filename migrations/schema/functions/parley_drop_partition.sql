-- Drops the oldest partition of a table, if all its turns have ended and all its rows are older than p_days days; returns how many
-- rows it had, NULL if it stays. Nothing is left behind that would have to be vacuumed.
--
-- The rows are counted before the lock, under which turns wait: a turn that has ended writes no more. It waits for its
-- locks for a tenth of a second (parley_make_partitions), and is tried again by the next maintenance.
--
-- Runs with the rights of its owner, who alone may drop tables.
CREATE FUNCTION public.parley_drop_partition(p_table text, p_days bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    v_oldest record;
    v_default text;
    v_rows bigint;
    v_newest timestamptz;
BEGIN
    SELECT p.name, p.from_id, p.to_id INTO v_oldest FROM public.parley_partitions() AS p
    WHERE p.table_name = p_table AND p.from_id IS NOT NULL ORDER BY p.from_id LIMIT 1;
    -- The turn behind it tells at once that it is too early, as it mostly is. The settings allow no fewer days than two.
    IF NOT coalesce((
        SELECT t.created_at FROM public.turns AS t WHERE t.id >= v_oldest.to_id ORDER BY t.id LIMIT 1
    ) < now() - greatest(p_days, 2) * interval '1 day', false) OR EXISTS (
        SELECT FROM public.turns AS t
        WHERE t.id >= v_oldest.from_id AND t.id < v_oldest.to_id AND t.status = 'running'
    ) THEN
        RETURN NULL;
    END IF;
    EXECUTE format('SELECT count(*), max(created_at) FROM partitions.%I', v_oldest.name) INTO v_rows, v_newest;
    IF v_newest >= now() - greatest(p_days, 2) * interval '1 day' THEN
        RETURN NULL;
    END IF;
    SELECT p.name INTO v_default FROM public.parley_partitions() AS p WHERE p.table_name = p_table AND p.from_id IS NULL;
    EXECUTE format('LOCK TABLE ONLY public.%I IN ACCESS EXCLUSIVE MODE', p_table);
    EXECUTE format('LOCK TABLE partitions.%I IN ACCESS EXCLUSIVE MODE', v_default);
    EXECUTE format('DROP TABLE partitions.%I', v_oldest.name);
    RETURN v_rows;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_drop_partition IS
    'Drops the oldest partition of a table if all its rows are older than so many days; returns how many it had.';
REVOKE EXECUTE ON FUNCTION public.parley_drop_partition FROM parley_admin;
