-- Lets a persona answer in a channel, or without one on a server, and only there; who answered there before answers there no
-- more. Without a name nobody answers there but who is further away.
CREATE FUNCTION public.parley_bind_persona(p_name text, p_platform text, p_server text, p_channel text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE public.personas SET platform = NULL, platform_server_id = NULL, platform_channel_id = NULL
    WHERE platform = p_platform AND platform_server_id IS NOT DISTINCT FROM p_server
      AND platform_channel_id IS NOT DISTINCT FROM p_channel AND name IS DISTINCT FROM p_name;
    UPDATE public.personas SET platform = p_platform, platform_server_id = p_server, platform_channel_id = p_channel
    WHERE name = p_name;
END;
COMMENT ON FUNCTION public.parley_bind_persona IS
    'Lets a persona answer in a channel or on a server, in place of who answered there before; NULL: that one no more.';
