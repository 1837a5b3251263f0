-- Makes this database the cell p_number: from now on all ids that it gives out leave p_number when divided by 16, so that no other
-- cell gives out the same one, and rows move as they are. They begin behind what an installation reaches by itself, because
-- one cell, number 0, may have had rows before. Tables that were made since are brought in line by calling it again.
CREATE FUNCTION public.parley_number_cell(p_number integer, p_name text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_cell public.own_cell;
    v_table text;
    v_has_rows boolean;
    v_sequence record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('parley history'));
    SELECT * INTO v_cell FROM public.own_cell;
    IF v_cell.number IS NOT NULL AND (v_cell.number, v_cell.name) <> (p_number, p_name) THEN
        RAISE EXCEPTION 'this database is the cell % with the number % already; CELLS names it %', v_cell.name, v_cell.number, p_name;
    END IF;
    IF v_cell.number IS NULL AND p_number > 0 THEN
        FOR v_table IN SELECT name FROM public.parley_server_tables() WHERE condition IS NOT NULL LOOP
            EXECUTE format('SELECT EXISTS (SELECT FROM public.%I)', v_table) INTO v_has_rows;
            IF v_has_rows THEN
                RAISE EXCEPTION 'the cell % has rows in % from before it was a cell: their ids may be those of other rows in the first one', p_name, v_table
                    USING HINT = 'Only the first cell may have been used before: name it first in CELLS, and begin the others with empty databases.';
            END IF;
        END LOOP;
    END IF;
    FOR v_sequence IN
        SELECT format('%I.%I', schemaname, sequencename)::regclass AS name, increment_by,
               greatest(coalesce(last_value, 0), 1000000000000) AS last
        FROM pg_sequences
        -- Those of others in this schema are not ours, and no table that moves has smaller numbers.
        WHERE schemaname = 'public' AND increment_by > 0 AND data_type = 'bigint'::regtype AND pg_has_role(sequenceowner, 'USAGE')
    LOOP
        IF v_sequence.increment_by <> 16 THEN
            EXECUTE format('ALTER SEQUENCE %s INCREMENT BY 16', v_sequence.name);
            PERFORM setval(v_sequence.name, v_sequence.last + 16 - v_sequence.last % 16 + p_number);
        END IF;
    END LOOP;
    IF v_cell.number IS NULL THEN
        INSERT INTO public.own_cell (id, number, name) VALUES (1, p_number, p_name);
        ALTER TABLE public.inbox ENABLE TRIGGER parley_refuse_moved;
        ALTER TABLE public.jobs ENABLE TRIGGER parley_hold_jobs;
        PERFORM public.parley_make_partitions(365);
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_number_cell IS 'Makes this database one of several cells, whose ids no other cell gives out.';
REVOKE EXECUTE ON FUNCTION public.parley_number_cell FROM parley_app, parley_admin;
