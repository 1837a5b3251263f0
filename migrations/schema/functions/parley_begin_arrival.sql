-- A server is about to come from another cell, or to come back from it: its messages may be stored here from now on, and wait
-- (parley_hold_jobs).
CREATE FUNCTION public.parley_begin_arrival(p_platform text, p_server text, p_from text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.cell_servers AS c (platform, platform_server_id, state, other_cell)
    VALUES (p_platform, p_server, 'arriving', p_from)
    ON CONFLICT (platform, platform_server_id) DO UPDATE
        SET state = 'arriving', other_cell = p_from, changed_at = now() WHERE c.state = 'moved' OR c.state = 'leaving' AND c.other_cell = p_from;
    IF NOT EXISTS (
        SELECT FROM public.cell_servers
        WHERE platform = p_platform AND platform_server_id = p_server AND other_cell = p_from AND state IN ('arriving', 'here')
    ) THEN
        RAISE EXCEPTION 'the server % of % is between two other cells; end that move first', p_server, p_platform;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_begin_arrival IS 'Notes that a server is about to come from another cell.';
REVOKE EXECUTE ON FUNCTION public.parley_begin_arrival FROM parley_app, parley_admin;
