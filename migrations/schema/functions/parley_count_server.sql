-- How many rows of each table belong to a server; `is_lost` as parley_server_tables has it. It is called before a server is sent
-- on its way, and refuses what would end a move in the middle: what modules say of their tables may be wrong.
CREATE FUNCTION public.parley_count_server(p_platform text, p_server text)
RETURNS TABLE (name text, rows bigint, is_lost boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_table record;
    v_wrong text;
BEGIN
    SELECT t.name INTO v_wrong FROM public.parley_server_tables() AS t GROUP BY t.name HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the table % is named twice; delete it from folder_tables, which has those of platforms and modules alone', v_wrong;
    END IF;
    SELECT format('%s refers to %s', c.conrelid::regclass, c.confrelid::regclass) INTO v_wrong
    FROM pg_catalog.pg_constraint AS c
    WHERE c.contype = 'f' AND c.conparentid = 0 AND c.confdeltype IN ('a', 'r') AND c.confrelid <> c.conrelid
      AND c.confrelid IN (
          SELECT to_regclass(format('public.%I', t.name)) FROM public.parley_server_tables() AS t WHERE t.condition IS NOT NULL
      )
      AND NOT EXISTS (
          SELECT FROM public.parley_server_tables() AS t
          WHERE t.condition IS NOT NULL AND to_regclass(format('public.%I', t.name)) = c.conrelid
      )
    ORDER BY 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '%, whose rows go; give it a condition in folder_tables, or its foreign key a rule for ON DELETE', v_wrong;
    END IF;
    FOR v_table IN SELECT t.* FROM public.parley_server_tables() AS t WHERE t.condition IS NOT NULL ORDER BY t.number LOOP
        name := v_table.name;
        is_lost := v_table.is_lost;
        BEGIN
            EXECUTE format('SELECT count(*) FROM public.%I AS own WHERE %s', name, v_table.condition)
            INTO rows USING p_platform, p_server;
        EXCEPTION WHEN syntax_error_or_access_rule_violation OR data_exception THEN
            RAISE EXCEPTION 'the condition of % in folder_tables is wrong (%); mend it there, in both cells', name, SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_count_server IS 'How many rows of each table belong to a server.';
REVOKE EXECUTE ON FUNCTION public.parley_count_server FROM parley_app, parley_admin;
