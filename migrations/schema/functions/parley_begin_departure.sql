-- A server is about to go to another cell: from the commit on, none of its messages is stored here. Who stores one just now
-- is waited for, so that whoever is refused afterwards knows that it is in no row here; others wait behind, so not for long:
-- it is tried again. Where it has not arrived yet, it goes back: its messages wait here no longer for its rows.
CREATE FUNCTION public.parley_begin_departure(p_platform text, p_server text, p_to text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '500ms', true);
    LOCK TABLE public.inbox IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO public.cell_servers AS c (platform, platform_server_id, state, other_cell)
    VALUES (p_platform, p_server, 'leaving', p_to)
    ON CONFLICT (platform, platform_server_id) DO UPDATE
        SET state = CASE c.state WHEN 'here' THEN 'leaving' ELSE 'returning' END, other_cell = p_to, changed_at = now()
        WHERE c.state = 'here' OR c.state = 'arriving' AND c.other_cell = p_to;
    IF NOT EXISTS (
        SELECT FROM public.cell_servers
        WHERE platform = p_platform AND platform_server_id = p_server AND other_cell = p_to
          -- moved: a failover of the other cell has lost its end of the move.
          AND state IN ('leaving', 'returning', 'moved')
    ) THEN
        RAISE EXCEPTION 'the server % of % is on its way already', p_server, p_platform;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_begin_departure IS 'Notes that a server is about to go to another cell.';
REVOKE EXECUTE ON FUNCTION public.parley_begin_departure FROM parley_app, parley_admin;
