-- Notes a server and its name. With p_welcomes, the agent is about to introduce itself there: true once for each server.
CREATE FUNCTION public.parley_note_server(
    p_platform text, p_server text, p_name text, p_welcomes boolean DEFAULT false
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.servers (platform, platform_server_id, name) VALUES (p_platform, p_server, p_name)
    ON CONFLICT ON CONSTRAINT uq_servers_platform_platform_server_id DO UPDATE SET name = excluded.name
    WHERE servers.name IS DISTINCT FROM excluded.name AND excluded.name IS NOT NULL;
    UPDATE public.servers SET welcomed_at = now()
    WHERE p_welcomes AND platform = p_platform AND platform_server_id = p_server AND welcomed_at IS NULL;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION public.parley_note_server IS
    'Notes a server and its name; with p_welcomes, returns whether the agent has still to introduce itself there.';
