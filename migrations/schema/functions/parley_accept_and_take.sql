-- Stores events as `parley_accept` does, and gives a worker of the same process jobs as `parley_take_jobs` does, those of these
-- events among them, in one transaction; `place` of such a job is what its turn begins with (`parley_prepare_turn`, with
-- p_messages as its limit). So their turns begin without another round trip. A worker that may have no jobs gets none here; it
-- finds out why when it asks for itself. Where its process dies before it knows of them, the sweep lets them wait again.
--
-- `is_flushed` is false when nobody may be told yet that the events are stored: the begins of their turns, which follow at once,
-- flush this commit as well (`parley_open_turn`). It is true where anything else is stored here or was before, and where
-- somebody reads along, who is told of the turn before it begins. `stored_at` is when the new rows were made: with their ids it
-- names them for certain, also where a crash of the server has lost them and has given their ids to others.
CREATE FUNCTION public.parley_accept_and_take(
    p_events jsonb, p_worker_id bigint, p_limit integer, p_persons jsonb, p_servers jsonb,
    p_per_person integer, p_per_server integer, p_after text, p_revision text, p_suspect integer,
    p_messages integer
)
RETURNS TABLE (accepted json, jobs json, is_flushed boolean, stored_at timestamptz)
LANGUAGE plpgsql AS $$
DECLARE
    v_commit text := current_setting('synchronous_commit');
    v_new bigint[];
    v_begins bigint;
BEGIN
    -- The worker takes no other jobs meanwhile: who stores messages without it may wait for a place.
    PERFORM set_config('lock_timeout', '100ms', true);
    SELECT json_agg(stored), array_agg(stored.inbox_id) FILTER (WHERE stored.is_new) INTO accepted, v_new
    FROM public.parley_accept(p_events, p_is_announced => true) AS stored;
    is_flushed := true;
    stored_at := now();
    IF EXISTS (SELECT FROM public.workers WHERE id = p_worker_id)
       AND NOT EXISTS (SELECT FROM public.schema_compatibility WHERE oldest_revision > p_revision) THEN
        SELECT json_agg(job), count(job.place) INTO jobs, v_begins FROM (
            SELECT taken.id, taken.inbox_id, taken.person, taken.server, taken.deaths,
                   taken.priority >= p_suspect AS is_suspect, CASE WHEN taken.inbox_id = ANY (v_new) THEN (
                       SELECT to_json(place) FROM public.parley_prepare_turn(taken.id, p_messages) AS place
                       WHERE place.participants IS NOT NULL
                   ) END AS place
            FROM public.parley_take_jobs(
                p_worker_id, p_limit, p_persons, p_servers, p_per_person, p_per_server, p_after, p_revision
            ) AS taken
        ) AS job;
        is_flushed := v_begins < jsonb_array_length(p_events) OR EXISTS (
            SELECT FROM jsonb_array_elements(p_events) AS event WHERE (event -> 'wants_stream')::boolean
        );
        -- To take jobs need not be durable; to accept a message must be.
        PERFORM set_config('synchronous_commit', v_commit, true) WHERE is_flushed;
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_accept_and_take IS
    'Stores events once each in the inbox, and gives a worker of the same process jobs.';
