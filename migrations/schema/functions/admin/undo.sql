-- Takes one change of audit_log back and says what it did; the undoing is an entry itself, so that it can be undone, too.
CREATE FUNCTION admin.undo(entry bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_entry public.audit_log;
    v_later bigint;
    v_columns text;
    v_now jsonb;
    v_mark constant text := '[secret-removed]';
    v_without text;
    v_done text;
BEGIN
    IF entry IS NULL THEN
        RETURN 'nothing was taken back: there is no such change that is not undone';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('audit_log', 0));
    -- Who acts for one server alone takes back what they have changed themselves.
    SELECT * INTO v_entry FROM public.audit_log WHERE id = entry
        AND (coalesce(current_setting('parley.acting_server', true), '') = '' OR actor = current_setting('parley.actor', true));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the log of changes has no entry %', entry USING HINT = 'SELECT * FROM admin.audit shows them.';
    END IF;
    IF v_entry.action = 'read' THEN
        RAISE EXCEPTION 'entry % says what was read, which cannot be taken back', entry;
    END IF;
    SELECT id INTO v_later FROM public.audit_log WHERE undoes = entry
        AND NOT EXISTS (SELECT FROM public.audit_log AS again WHERE again.undoes = audit_log.id);
    IF FOUND THEN
        RAISE EXCEPTION 'entry % is undone already, by entry %', entry, v_later;
    END IF;
    EXECUTE format('SELECT to_jsonb(t) FROM public.%I AS t WHERE id = $1 FOR UPDATE', v_entry.table_name)
        INTO v_now USING v_entry.row_id;
    IF v_entry.action <> 'delete' AND v_now IS NULL THEN
        RAISE EXCEPTION 'row % of % does not exist any more', v_entry.row_id, v_entry.table_name;
    END IF;
    IF v_entry.action <> 'delete' 
       AND NOT public.parley_without_secrets(v_now, ARRAY[v_entry.table_name]) @> v_entry.new_values THEN
        RAISE EXCEPTION 'row % of % has been changed since entry %', v_entry.row_id, v_entry.table_name, entry
            USING HINT = 'Undo the later entries first: SELECT * FROM admin.audit shows them.';
    END IF;
    IF v_entry.action <> 'update' AND v_entry.table_name = 'users' THEN
        RAISE EXCEPTION 'people are neither deleted nor brought back by undoing: what belongs to them would be gone';
    END IF;
    SELECT string_agg(key, ', ' ORDER BY key) INTO v_without FROM jsonb_each_text(v_entry.old_values) AS column_of_row
    WHERE position(v_mark IN value) > 0;
    IF v_entry.action = 'update' AND v_without IS NOT NULL THEN
        RAISE EXCEPTION 'entry % cannot be undone: % held a secret, which the log does not keep', entry, v_without
            USING HINT = format('Write it anew: UPDATE %I SET … WHERE id = %s', v_entry.table_name, v_entry.row_id);
    END IF;
    PERFORM set_config('parley.undoes', entry::text, true);
    SELECT string_agg(quote_ident(key), ', ' ORDER BY key) INTO v_columns FROM jsonb_object_keys(v_entry.old_values) AS key;
    CASE v_entry.action
        WHEN 'update' THEN
            EXECUTE format(
                'UPDATE public.%1$I AS t SET (%2$s) = (SELECT %2$s FROM jsonb_populate_record(NULL::public.%1$I, $1)) WHERE id = $2',
                v_entry.table_name, v_columns
            ) USING v_entry.old_values, v_entry.row_id;
            v_done := 'has its old values again: ' || v_entry.old_values::text;
        WHEN 'insert' THEN
            EXECUTE format('DELETE FROM public.%I WHERE id = $1', v_entry.table_name) USING v_entry.row_id;
            v_done := 'is deleted again';
        WHEN 'delete' THEN
            EXECUTE format(
                'INSERT INTO public.%1$I (%2$s) OVERRIDING SYSTEM VALUE
                 SELECT %2$s FROM jsonb_populate_record(NULL::public.%1$I, $1)',
                v_entry.table_name, v_columns
            ) USING v_entry.old_values;
            v_done := 'is there again'
                || coalesce('; write the secrets anew that the log does not keep, in ' || v_without, '');
    END CASE;
    PERFORM set_config('parley.undoes', '', true);
    RETURN format('row %s of %s %s', v_entry.row_id, v_entry.table_name, v_done);
END
$$;
COMMENT ON FUNCTION admin.undo IS 'Takes one change back: admin.undo(17), the id from admin.audit. The undoing can be undone, too.';
