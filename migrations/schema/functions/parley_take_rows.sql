-- Stores the rows that stand in the temporary table moving_rows (`data` as parley_give_rows gives them) in a table of that name;
-- returns how many. They keep their ids. People become those of p_people (parley_take_people), personas that did not come along
-- those of p_personas, by number there. What else a row refers to has come before it, or stands beside it; where it has
-- not, the column becomes empty, or the row is left out, as its foreign key has it when the other row is deleted. A row
-- that is here already stays as it is.
CREATE FUNCTION public.parley_take_rows(p_table text, p_people jsonb, p_personas jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_key record;
    v_columns text;
    v_count bigint;
BEGIN
    IF p_table = 'personas' THEN
        -- Names are unique in a cell.
        UPDATE moving_rows SET data = data || jsonb_build_object('name', format('%s (%s)', data ->> 'name', data ->> 'id'))
        WHERE EXISTS (SELECT FROM public.personas WHERE name = data ->> 'name');
    END IF;
    IF p_table = 'memory_words' THEN
        -- No foreign key says so: words of a memory that was left out would stay when its person is erased.
        DELETE FROM moving_rows WHERE NOT EXISTS (SELECT FROM public.memories WHERE id = (data ->> 'memory_id')::bigint);
    END IF;
    FOR v_key IN
        SELECT a.attname AS column, c.confrelid::regclass AS parent, c.confrelid = c.conrelid AS is_own,
               c.confdeltype = 'n' AS can_be_empty, p.attname AS parent_column,
               format_type(p.atttypid, p.atttypmod) AS parent_type
        FROM pg_constraint AS c
        JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
        JOIN pg_attribute AS p ON p.attrelid = c.confrelid AND p.attnum = c.confkey[1]
        WHERE c.conrelid = to_regclass('public.' || p_table) AND c.contype = 'f' AND c.conparentid = 0
    LOOP
        IF v_key.parent IN ('public.users'::regclass, 'public.personas'::regclass) THEN
            EXECUTE format(
                $sql$UPDATE moving_rows SET data = data || jsonb_build_object(%1$L, coalesce($1 -> (data ->> %1$L), data -> %1$L))
                WHERE data ->> %1$L IS NOT NULL$sql$, v_key.column
            ) USING CASE WHEN v_key.parent = 'public.users'::regclass THEN p_people ELSE p_personas END;
        END IF;
        EXECUTE format(
            CASE WHEN v_key.can_be_empty
            THEN $sql$UPDATE moving_rows AS own SET data = data || jsonb_build_object(%1$L, NULL)$sql$
            ELSE 'DELETE FROM moving_rows AS own' END || $sql$ WHERE data ->> %1$L IS NOT NULL AND NOT EXISTS (
                SELECT FROM %2$s AS parent WHERE parent.%3$I = (own.data ->> %1$L)::%4$s
            )$sql$ || CASE WHEN v_key.is_own THEN $sql$ AND NOT EXISTS (
                SELECT FROM moving_rows AS parent WHERE (parent.data ->> %3$L)::%4$s = (own.data ->> %1$L)::%4$s
            )$sql$ ELSE '' END, v_key.column, v_key.parent, v_key.parent_column, v_key.parent_type
        );
    END LOOP;
    PERFORM set_config('parley.takes_rows', 'yes', true);
    SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO v_columns FROM pg_attribute AS a
    WHERE a.attrelid = to_regclass('public.' || p_table) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';
    EXECUTE format(
        $sql$INSERT INTO public.%1$I (%2$s) SELECT %2$s FROM moving_rows
        CROSS JOIN LATERAL jsonb_populate_record(NULL::public.%1$I, data) ON CONFLICT DO NOTHING$sql$, p_table, v_columns
    );
    GET DIAGNOSTICS v_count = ROW_COUNT;
    PERFORM set_config('parley.takes_rows', '', true);
    DELETE FROM moving_rows;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_take_rows IS 'Stores the rows of a table that came with a server from another cell.';
REVOKE EXECUTE ON FUNCTION public.parley_take_rows FROM parley_app, parley_admin;
