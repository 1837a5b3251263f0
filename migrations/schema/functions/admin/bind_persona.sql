CREATE FUNCTION admin.bind_persona(persona text, platform text, server text, channel text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_persona public.personas;
    v_place text := CASE WHEN channel IS NULL THEN format('on %s', server) ELSE format('in the channel %s', channel) END;
BEGIN
    IF platform IS NULL OR num_nonnulls(server, channel) = 0 THEN
        RAISE EXCEPTION 'a place is a platform with a server, a channel, or both';
    END IF;
    IF persona IS NOT NULL THEN
        SELECT * INTO v_persona FROM public.personas WHERE id = admin.get_persona(persona);
        IF v_persona.is_default THEN
            RAISE EXCEPTION 'the persona % is the default one, which belongs to no place; choose another one', persona;
        END IF;
    END IF;
    PERFORM public.parley_bind_persona(persona, platform, server, channel);
    IF persona IS NULL THEN
        RETURN format('no persona of its own answers %s any more', v_place);
    ELSIF v_persona.platform IS NULL OR (v_persona.platform, v_persona.platform_server_id, v_persona.platform_channel_id)
        IS NOT DISTINCT FROM (platform, server, channel) THEN
        RETURN format('the persona %s answers %s', persona, v_place);
    END IF;
    RETURN format(
        'the persona %s answers %s, and no longer in %s', persona, v_place,
        concat_ws(' / ', v_persona.platform, v_persona.platform_server_id, v_persona.platform_channel_id)
    );
END
$$;
COMMENT ON FUNCTION admin.bind_persona IS
    'Who answers in a channel, or without one on a server; NULL: nobody of its own: admin.bind_persona(''Sage'', ''discord'', ''4711'', ''4712'').';
