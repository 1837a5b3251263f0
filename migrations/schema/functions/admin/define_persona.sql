-- The row is afterwards what the call says, whatever it was before: what is not said has its default.
CREATE FUNCTION admin.define_persona(
    name text, system_prompt text, platform text DEFAULT NULL, server text DEFAULT NULL, channel text DEFAULT NULL,
    modules text[] DEFAULT NULL, skills text[] DEFAULT NULL, model text DEFAULT NULL, max_tokens integer DEFAULT NULL,
    max_temperature double precision DEFAULT NULL, max_iterations integer DEFAULT NULL, loop_mode text DEFAULT NULL,
    allow_mentions boolean DEFAULT false, is_default boolean DEFAULT false, new_name text DEFAULT NULL,
    suggestions text[] DEFAULT NULL, open_to text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_id bigint;
BEGIN
    IF platform IS NULL AND coalesce(server, channel) IS NOT NULL THEN
        RAISE EXCEPTION 'a server or channel needs its platform, for instance platform => ''discord''';
    END IF;
    SELECT persona.id INTO v_id FROM public.personas AS persona WHERE persona.name = name;
    -- A default that gets a place is one no more before it has it.
    UPDATE public.personas AS persona SET is_default = false
    WHERE persona.id = v_id AND persona.is_default AND NOT is_default;
    name := coalesce(new_name, name);
    PERFORM public.parley_store_persona(v_id, jsonb_build_object(
        'name', name, 'system_prompt', system_prompt, 'platform', platform, 'platform_server_id', server,
        'platform_channel_id', channel, 'allowed_modules', to_jsonb(modules), 'skills', to_jsonb(skills),
        'default_model', model, 'max_tokens_per_request', max_tokens, 'max_temperature', max_temperature,
        'max_iterations', max_iterations, 'loop_mode', loop_mode, 'allow_mentions', allow_mentions, 'suggestions', to_jsonb(suggestions),
        'open_to', open_to
    ));
    IF is_default THEN
        PERFORM admin.set_default_persona(name);
    END IF;
    RETURN format('the persona %s is %s', name, CASE WHEN v_id IS NULL THEN 'made' ELSE 'changed' END);
END
$$;
COMMENT ON FUNCTION admin.define_persona IS
    'Makes a persona, or makes it exactly this: admin.define_persona(''Sage'', ''You know every book.'', model => ''openai/gpt-5'').';
