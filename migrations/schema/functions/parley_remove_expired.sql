-- Removes a step of rows that are older than p_days days and over: it looks at 500 rows after p_after in the order of their
-- ids, and says which it has looked at last, and whether there may be more. Ids grow with the age, so that no index on the
-- age is needed, which every turn would have to write. The limit is a number in the text and stands inside: the planner
-- then knows that conditions meet this many rows only, and looks each of them up where it would have read whole tables. That a
-- row is over is asked again of the row that is deleted: a cancelled job may be resumed at this moment.
--
-- Of tables that are partitioned by the turn it removes rows that are older still by the days of a partition and one: by then
-- parley_drop_partition has dropped them, unless their partition reaches over more days because there are few turns. What
-- a turn has left goes as a whole.
CREATE FUNCTION public.parley_remove_expired(p_table text, p_days bigint, p_after bigint)
RETURNS TABLE (last bigint, removed bigint, has_more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_is_over constant text := CASE p_table
        WHEN 'inbox' THEN $sql$status NOT IN ('waiting', 'claimed')$sql$
        WHEN 'outbox' THEN $sql$status IN ('delivered', 'failed')$sql$
        WHEN 'scheduled_jobs' THEN $sql$ended_at < now() - $1 * interval '1 day'$sql$
        -- What the totals have not counted yet stays.
        WHEN 'token_logs' THEN
            $sql$id <= (SELECT last_id FROM public.counted_rows WHERE table_name = 'token_logs')$sql$
        WHEN 'confirmations' THEN 'true'
    END;
BEGIN
    IF p_table IN ('turn_events', 'turn_contexts', 'full_results') THEN
        RETURN QUERY EXECUTE format($sql$
            WITH step AS (
                SELECT turn_id, max(created_at) < now() - ($1 + public.parley_partition_days($1) + 1) * interval '1 day' AS is_old, count(*) AS rows
                FROM (SELECT turn_id, created_at FROM public.%1$I WHERE turn_id > $2 ORDER BY turn_id LIMIT 500) AS candidate
                GROUP BY turn_id
            ), removed AS (
                DELETE FROM public.%1$I AS candidate WHERE turn_id IN (SELECT turn_id FROM step WHERE is_old) AND NOT EXISTS (
                    SELECT FROM public.turns WHERE turns.id = candidate.turn_id AND turns.status = 'running'
                ) RETURNING turn_id
            )
            SELECT max(turn_id), (SELECT count(*) FROM removed), sum(rows) = 500 AND bool_and(is_old) FROM step
        $sql$, p_table) USING p_days, p_after;
        RETURN;
    END IF;
    IF v_is_over IS NULL THEN
        RAISE EXCEPTION 'rows of % do not expire', p_table;
    END IF;
    RETURN QUERY EXECUTE format($sql$
        WITH step AS (
            SELECT id, created_at < now() - $1 * interval '1 day' AS is_old, %2$s AS is_over
            FROM (SELECT * FROM public.%1$I WHERE id > $2 ORDER BY id LIMIT 500) AS candidate
        ), removed AS (
            DELETE FROM public.%1$I AS candidate WHERE id IN (SELECT id FROM step WHERE is_old AND is_over) AND %2$s
            RETURNING id
        )
        SELECT max(id), (SELECT count(*) FROM removed), count(*) = 500 AND bool_and(is_old) FROM step
    $sql$, p_table, v_is_over) USING p_days, p_after;
END
$$;
COMMENT ON FUNCTION public.parley_remove_expired IS
    'Removes a step of rows of a table that are older than so many days and over; returns where the next step begins.';
