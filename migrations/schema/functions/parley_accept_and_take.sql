-- Stores events as `parley_accept` does, and gives a worker of the same process jobs as `parley_take_jobs` does, those of these
-- events among them, in one transaction: their turns begin without another round trip. A worker that may have no jobs gets
-- none here; it finds out why when it asks for itself. Where its process dies before it knows of them, the sweep lets
-- them wait again.
CREATE FUNCTION public.parley_accept_and_take(
    p_events jsonb, p_worker_id bigint, p_limit integer, p_persons jsonb, p_servers jsonb,
    p_per_person integer, p_per_server integer, p_after text, p_revision text, p_suspect integer
)
RETURNS TABLE (accepted json, jobs json)
LANGUAGE plpgsql AS $$
DECLARE
    v_commit text := current_setting('synchronous_commit');
BEGIN
    -- The worker takes no other jobs meanwhile: who stores messages without it may wait for a place.
    PERFORM set_config('lock_timeout', '100ms', true);
    SELECT json_agg(stored) INTO accepted FROM public.parley_accept(p_events, p_is_announced => true) AS stored;
    IF EXISTS (SELECT FROM public.workers WHERE id = p_worker_id)
       AND NOT EXISTS (SELECT FROM public.schema_compatibility WHERE oldest_revision > p_revision) THEN
        SELECT json_agg(job) INTO jobs FROM (
            SELECT id, inbox_id, person, server, deaths, priority >= p_suspect AS is_suspect FROM public.parley_take_jobs(
                p_worker_id, p_limit, p_persons, p_servers, p_per_person, p_per_server, p_after, p_revision
            )
        ) AS job;
        -- To take jobs need not be durable; to accept a message must be.
        PERFORM set_config('synchronous_commit', v_commit, true);
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_accept_and_take IS
    'Stores events once each in the inbox, and gives a worker of the same process jobs.';
