-- Makes partitions ahead, so that each table has two for turns that are still to come; returns how many were made. p_days: how
-- long the rows are kept. A partition takes as many turns as began in the last twelfth of that time (parley_partition_days),
-- and at least 100,000: what few turns leave is as well removed by the row, and the first hours of many turns need room. What
-- there is no partition for is in the default one, and the next partition begins behind it.
--
-- Turns may run: whoever waits for a lock lets nobody pass who comes later, so it waits for a tenth of a second and is tried
-- again by the next maintenance. A partition is made beside its table and then attached: that lets others read and write
-- the table, which CREATE TABLE … PARTITION OF does not. `turns` is locked first, against deadlocks: a turn
-- writes there before it writes its events.
--
-- Runs with the rights of its owner, who alone may make tables.
CREATE FUNCTION public.parley_make_partitions(p_days bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    v_last_id constant bigint := coalesce(pg_sequence_last_value(pg_get_serial_sequence('public.turns', 'id')), 0);
    -- The ids of a cell begin there (parley_number_cell).
    v_first_id bigint := CASE WHEN v_last_id > 1000000000000 THEN 1000000000000 ELSE 1 END;
    v_middle_id bigint;
    v_width bigint;
    v_table record;
    v_from_id bigint;
    v_name text;
    v_count bigint := 0;
BEGIN
    IF NOT EXISTS (
        SELECT FROM public.parley_partitions() AS p
        GROUP BY p.table_name HAVING count(*) FILTER (WHERE p.from_id > v_last_id) < 2
    ) THEN
        RETURN 0;
    END IF;
    -- The first turn of those days: ids grow with the age, which has no index.
    v_middle_id := v_last_id + 1;
    WHILE v_first_id < v_middle_id LOOP
        IF (
            SELECT t.created_at FROM public.turns AS t WHERE t.id >= (v_first_id + v_middle_id) / 2 ORDER BY t.id LIMIT 1
        ) < now() - public.parley_partition_days(p_days) * interval '1 day' THEN
            v_first_id := (v_first_id + v_middle_id) / 2 + 1;
        ELSE
            v_middle_id := (v_first_id + v_middle_id) / 2;
        END IF;
    END LOOP;
    v_width := greatest(100000, v_last_id - v_first_id);
    LOCK TABLE public.turns IN SHARE ROW EXCLUSIVE MODE;
    FOR v_table IN
        SELECT p.table_name, max(p.to_id) AS to_id, count(*) FILTER (WHERE p.from_id > v_last_id) AS ahead,
               max(p.name) FILTER (WHERE p.from_id IS NULL) AS default_name,
               max((SELECT array_to_string(c.reloptions, ', ') FROM pg_class AS c
                    WHERE c.relnamespace = 'partitions'::regnamespace AND c.relname = p.name)
               ) FILTER (WHERE p.from_id IS NULL) AS options
        FROM public.parley_partitions() AS p GROUP BY p.table_name ORDER BY p.table_name
    LOOP
        EXECUTE format('LOCK TABLE partitions.%I IN ACCESS EXCLUSIVE MODE', v_table.default_name);
        EXECUTE format('SELECT max(turn_id) + 1 FROM partitions.%I', v_table.default_name) INTO v_from_id;
        -- Ids may have leapt.
        v_from_id := greatest(v_table.to_id, v_from_id, v_last_id - v_width, 1);
        WHILE v_table.ahead < 2 LOOP
            v_name := format('%s_%s', v_table.table_name, v_from_id);
            EXECUTE format(
                'CREATE TABLE partitions.%I (LIKE public.%I INCLUDING ALL) WITH (%s)', v_name, v_table.table_name, v_table.options
            );
            EXECUTE format(
                'ALTER TABLE public.%I ATTACH PARTITION partitions.%I FOR VALUES FROM (%s) TO (%s)',
                v_table.table_name, v_name, v_from_id, v_from_id + v_width
            );
            v_table.ahead := v_table.ahead + (v_from_id > v_last_id)::int;
            v_from_id := v_from_id + v_width;
            v_count := v_count + 1;
        END LOOP;
    END LOOP;
    RETURN v_count;
EXCEPTION WHEN lock_not_available THEN
    RETURN 0;
END
$$;
COMMENT ON FUNCTION public.parley_make_partitions IS
    'Makes partitions ahead for the turns that are still to come; returns how many.';
REVOKE EXECUTE ON FUNCTION public.parley_make_partitions FROM parley_admin;
