CREATE FUNCTION admin.create_persona(
    name text, system_prompt text, platform text DEFAULT NULL, server text DEFAULT NULL, channel text DEFAULT NULL,
    modules text[] DEFAULT NULL, model text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF btrim(coalesce(system_prompt, '')) = '' THEN
        RAISE EXCEPTION 'the persona % needs instructions: system_prompt is empty', name;
    END IF;
    IF platform IS NULL AND coalesce(server, channel) IS NOT NULL THEN
        RAISE EXCEPTION 'a server or channel needs its platform, for instance platform => ''discord''';
    END IF;
    INSERT INTO public.personas (name, system_prompt, platform, platform_server_id, platform_channel_id, allowed_modules, default_model)
    VALUES (name, system_prompt, platform, server, channel, to_jsonb(modules), model);
    RETURN format('the persona %s answers %s', name, CASE
        WHEN channel IS NOT NULL THEN format('in the channel %s of %s', channel, platform)
        WHEN server IS NOT NULL THEN format('on the server %s of %s', server, platform)
        WHEN platform IS NOT NULL THEN 'on ' || platform
        ELSE 'nobody yet: SELECT admin.set_default_persona(' || quote_literal(name) || ')' END);
END
$$;
COMMENT ON FUNCTION admin.create_persona IS 'Adds a persona for a channel, a server, a platform or, without these, for admin.set_default_persona.';
