-- Adds what a process knows of the time before a failover to the row of the new history, and returns what is lost of it: what the
-- process had been told was committed. p_costs are those of p_turn_ids, whose answers were given. Ids are never given out again
-- (`parley_note_history`), so that one that is missing is gone.
CREATE FUNCTION public.parley_report_loss(
    p_history_id bigint, p_turn_ids bigint[], p_costs numeric[], p_message_ids bigint[], p_seen_lsn pg_lsn,
    p_seen_at timestamptz
)
RETURNS TABLE (answers bigint, messages bigint, cost numeric, replayed_at timestamptz, lost_bytes numeric)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT count(*), coalesce(sum(given.cost), 0) INTO answers, cost
    FROM unnest(p_turn_ids, p_costs) AS given (turn_id, cost)
    WHERE NOT EXISTS (
        -- One that was open again may have been answered anew.
        SELECT FROM public.turns JOIN public.database_histories AS history ON history.id = p_history_id
        WHERE turns.id = given.turn_id AND turns.status <> 'running' AND turns.finished_at < history.created_at
    );
    SELECT count(DISTINCT inbox_id) INTO messages FROM unnest(p_message_ids) AS accepted (inbox_id)
    WHERE NOT EXISTS (SELECT FROM public.inbox WHERE inbox.id = accepted.inbox_id);
    UPDATE public.database_histories AS history SET
        seen_lsn = greatest(history.seen_lsn, p_seen_lsn), seen_at = greatest(history.seen_at, p_seen_at),
        lost_answers = history.lost_answers + answers, lost_messages = history.lost_messages + messages,
        lost_cost = history.lost_cost + cost
    WHERE history.id = p_history_id
    RETURNING history.replayed_at, coalesce(greatest(0, history.seen_lsn - history.replayed_lsn), 0)
    INTO replayed_at, lost_bytes;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_report_loss IS
    'Adds to a history what a process knows of the one before, and returns how much of it is lost.';
