-- Has the scheduled jobs of a server that leaves wait, and returns what is open of it all the same: it moves when that is nothing.
CREATE FUNCTION public.parley_settle_server(p_platform text, p_server text) RETURNS TABLE (name text, rows bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_places constant bigint[] := ARRAY(
        SELECT c.id FROM public.conversations AS c WHERE c.platform = p_platform AND c.platform_server_id = p_server
    );
    -- What waits here has begun nothing, and goes along.
    v_returns constant boolean := EXISTS (
        SELECT FROM public.cell_servers AS s
        WHERE s.platform = p_platform AND s.platform_server_id = p_server AND s.state = 'returning'
    );
BEGIN
    UPDATE public.scheduled_jobs AS s SET status = 'paused', error = 'moving to another cell'
    WHERE s.conversation_id = ANY (v_places) AND s.status = 'active';
    RETURN QUERY
    SELECT open.* FROM (
        SELECT 'messages', count(*) FROM public.inbox AS i
        WHERE i.platform = p_platform AND i.platform_server_id = p_server AND i.status IN ('waiting', 'claimed')
          AND NOT v_returns
        UNION ALL
        SELECT 'turns', count(*) FROM public.turns AS t
        WHERE t.conversation_id = ANY (v_places) AND t.status = 'running'
        UNION ALL
        SELECT 'replies', count(*) FROM public.outbox AS o
        WHERE o.platform = p_platform AND o.platform_server_id = p_server AND o.status IN ('noted', 'pending', 'claimed')
        UNION ALL
        SELECT 'checks of jobs', count(*) FROM public.scheduled_jobs AS s
        WHERE s.conversation_id = ANY (v_places) AND s.claimed_until > now()
        UNION ALL
        -- Who is to be erased here must not go on there.
        SELECT 'erasures of people', count(*) FROM public.erasures AS e WHERE e.finished_at IS NULL
        UNION ALL
        SELECT 'model calls', count(*) FROM public.budget_reservations AS r
        WHERE r.conversation_id = ANY (v_places)
           OR r.turn_id IN (SELECT t.id FROM public.turns AS t WHERE t.conversation_id = ANY (v_places))
           OR r.server_id IN (
               SELECT s.id FROM public.servers AS s WHERE s.platform = p_platform AND s.platform_server_id = p_server
           )
    ) AS open (name, rows) WHERE open.rows > 0;
END
$$;
COMMENT ON FUNCTION public.parley_settle_server IS 'Has the scheduled jobs of a server that leaves wait; returns what is open of it.';
REVOKE EXECUTE ON FUNCTION public.parley_settle_server FROM parley_app, parley_admin;
