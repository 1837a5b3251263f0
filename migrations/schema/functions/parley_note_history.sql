-- Returns the history that the server is in, and notes it when it is a new one; every connection calls it before anything
-- else. No row where the server does not tell its history.
--
-- After a promotion the last commits may be missing, also such as processes were told of, and sequences may have gone back.
-- So before anybody works on the new history, all sequences leap: an id that was given out before means nothing else now,
-- not in the memory of a worker, and not to a platform. And whoever runs a turn or has a job loses it: the turn goes on from the
-- journal that is there, which may lack what its worker remembers. That counts as no failure of the turn.
--
-- SECURITY DEFINER: sequences belong to the tables' owner.
CREATE FUNCTION public.parley_note_history()
RETURNS TABLE (id bigint, system text, timeline bigint, created_at timestamptz, lsn pg_lsn, seen_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_system text;
    v_timeline bigint;
    v_last record;
    v_sequence record;
    -- Two servers that were promoted to one timeline leap to different numbers, by whole steps of a cell's (parley_number_cell).
    v_leap constant bigint := 16 * (62500 + floor(random() * 62500));
BEGIN
    BEGIN
        v_timeline := ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
        lsn := pg_current_wal_flush_lsn();
        SELECT control.system_identifier INTO v_system FROM pg_control_system() AS control;
    EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported THEN
        IF v_timeline IS NULL THEN
            RETURN;
        END IF;
    END;
    v_system := coalesce(v_system, '');
    seen_at := clock_timestamp();
    SELECT history.* INTO v_last FROM public.database_histories AS history ORDER BY history.id DESC LIMIT 1;
    IF v_last.system IS DISTINCT FROM v_system OR v_last.timeline IS DISTINCT FROM v_timeline THEN
        PERFORM pg_advisory_xact_lock(hashtext('parley history'));
        SELECT history.* INTO v_last FROM public.database_histories AS history ORDER BY history.id DESC LIMIT 1;
    END IF;
    IF v_last.system IS DISTINCT FROM v_system OR v_last.timeline IS DISTINCT FROM v_timeline THEN
        IF v_last.id IS NOT NULL THEN
            FOR v_sequence IN
                SELECT format('%I.%I', schemaname, sequencename)::regclass AS name,
                       least(max_value, coalesce(last_value, 0) + v_leap) AS value
                FROM pg_sequences
                -- Those of others in this schema are not ours.
                WHERE schemaname = 'public' AND increment_by > 0
                  AND has_sequence_privilege(format('%I.%I', schemaname, sequencename), 'UPDATE')
            LOOP
                PERFORM setval(v_sequence.name, v_sequence.value);
            END LOOP;
            -- Two statements, because there is an index for each.
            UPDATE public.turns SET attempt = attempt + 1, handovers = handovers + 2
            WHERE turns.status = 'running' AND turns.parent_turn_id IS NULL;
            UPDATE public.turns SET attempt = attempt + 1, handovers = handovers + 2
            WHERE turns.status = 'running' AND turns.parent_turn_id IS NOT NULL;
            -- In their order, which their ids are.
            UPDATE public.jobs SET id = renamed.new_id, worker_id = NULL, is_alone = false
            FROM (
                SELECT waiting.id AS old_id, nextval('public.jobs_id_seq') AS new_id
                FROM (SELECT jobs.id FROM public.jobs ORDER BY jobs.id FOR UPDATE) AS waiting
            ) AS renamed
            WHERE jobs.id = renamed.old_id;
        END IF;
        INSERT INTO public.database_histories (system, timeline, replayed_lsn, replayed_at)
        VALUES (
            v_system, v_timeline, pg_last_wal_replay_lsn(), pg_last_xact_replay_timestamp()
        )
        RETURNING database_histories.* INTO v_last;
    END IF;
    id := v_last.id;
    system := v_system;
    timeline := v_timeline;
    created_at := v_last.created_at;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_note_history IS
    'Returns the history that the server is in; when it is new, sequences leap and running turns are taken from their workers.';
REVOKE EXECUTE ON FUNCTION public.parley_note_history FROM parley_admin;
