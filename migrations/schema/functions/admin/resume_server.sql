CREATE FUNCTION admin.resume_server(platform text, server text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.servers AS s SET paused_at = NULL
    WHERE s.platform = resume_server.platform AND s.platform_server_id = server AND s.paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not paused', server;
    END IF;
    RETURN format('people are answered on %s again', server);
END
$$;
COMMENT ON FUNCTION admin.resume_server IS 'Ends the pause of a server: admin.resume_server(''discord'', ''81384788765712384'').';
