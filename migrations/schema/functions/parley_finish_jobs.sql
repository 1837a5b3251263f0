-- Ends jobs whose turns have not ended them. Returns of each job that its worker still had whether its place has a next turn.
--
-- Its commit need not be durable: a job that a crash of the server brings back finds no open message.
CREATE FUNCTION public.parley_finish_jobs(p_ids bigint[])
RETURNS TABLE (job_id bigint, has_next boolean)
LANGUAGE plpgsql AS $$
BEGIN
    -- In the order of the places, as for those who store messages.
    FOR job_id IN SELECT jobs.id FROM public.jobs WHERE jobs.id = ANY (p_ids) ORDER BY jobs.place_key LOOP
        has_next := public.parley_end_job(job_id);
        CONTINUE WHEN has_next IS NULL;
        RETURN NEXT;
    END LOOP;
    IF cardinality(p_ids) > 0 THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_finish_jobs IS 'Ends jobs whose turns have not ended them.';
