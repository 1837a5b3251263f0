-- The tables whose default partition has got rows within the last hour, with the last turn that they are of: there was no
-- partition for it. Runs with the rights of its owner, who alone may read partitions.
CREATE FUNCTION public.parley_list_strays()
RETURNS TABLE (table_name text, last_turn_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR table_name IN SELECT p.table_name FROM public.parley_partitions() AS p WHERE p.from_id IS NULL ORDER BY 1 LOOP
        EXECUTE format(
            $sql$SELECT turn_id FROM (
                SELECT turn_id, created_at FROM partitions.%I ORDER BY turn_id DESC LIMIT 1
            ) AS stray WHERE created_at > now() - interval '1 hour'$sql$, table_name || '_default'
        ) INTO last_turn_id;
        IF last_turn_id IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_list_strays IS
    'Tables for whose last turns there was no partition; they are in the default one.';
REVOKE EXECUTE ON FUNCTION public.parley_list_strays FROM parley_admin;
