CREATE FUNCTION admin.pause_server(platform text, server text) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF EXISTS (
        SELECT FROM public.servers AS s
        WHERE s.platform = pause_server.platform AND s.platform_server_id = server AND s.paused_at IS NOT NULL
    ) THEN
        RAISE EXCEPTION '% is paused already; admin.resume_server ends it', server;
    END IF;
    PERFORM public.parley_check_platform(pause_server.platform);
    -- The row is not part of the change: undoing that must not take what the server has spent.
    INSERT INTO public.servers (platform, platform_server_id) VALUES (pause_server.platform, server) ON CONFLICT DO NOTHING;
    UPDATE public.servers AS s SET paused_at = now() WHERE s.platform = pause_server.platform AND s.platform_server_id = server;
    PERFORM pg_notify('parley_stops', t.id::text) FROM public.turns AS t JOIN public.conversations AS c ON c.id = t.conversation_id
    WHERE t.status = 'running' AND c.platform = pause_server.platform AND c.platform_server_id = server;
    UPDATE public.turns AS t SET stop_requested = true FROM public.conversations AS c
    WHERE c.id = t.conversation_id AND t.status = 'running'
      AND c.platform = pause_server.platform AND c.platform_server_id = server;
    RETURN format('nobody is answered on %s until admin.resume_server(%L, %L)', server, pause_server.platform, server);
END
$$;
COMMENT ON FUNCTION admin.pause_server IS 'Stops answering on a server or workspace; running turns there end: admin.pause_server(''discord'', ''81384788765712384'').';
