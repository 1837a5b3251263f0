-- The rows of a server have come: it lives here now, its scheduled jobs go on, and the messages that waited for it have their
-- turns. Who stores one just now is waited for, so that none is passed over. Returns how many places had waited.
CREATE FUNCTION public.parley_end_arrival(p_platform text, p_server text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    UPDATE public.scheduled_jobs AS s SET status = 'active', error = NULL FROM public.conversations AS c
    WHERE c.id = s.conversation_id AND c.platform = p_platform AND c.platform_server_id = p_server
      AND s.status = 'paused' AND s.error = 'moving to another cell';
    LOCK TABLE public.inbox IN SHARE ROW EXCLUSIVE MODE;
    UPDATE public.cell_servers SET state = 'here', changed_at = now()
    WHERE platform = p_platform AND platform_server_id = p_server;
    SELECT count(public.parley_queue_turn(first.id)::text) INTO v_count FROM (
        SELECT DISTINCT ON (i.place_key) i.id FROM public.inbox AS i
        WHERE i.platform = p_platform AND i.platform_server_id = p_server AND i.status = 'waiting'
        ORDER BY i.place_key, i.sent_at, i.id
    ) AS first;
    PERFORM pg_notify('parley_jobs', '');
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_end_arrival IS 'Notes that the rows of a server have come, and queues the turns that waited for them.';
REVOKE EXECUTE ON FUNCTION public.parley_end_arrival FROM parley_app, parley_admin;
