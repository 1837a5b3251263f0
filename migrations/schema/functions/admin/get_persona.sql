-- To an admin by a role of one server, the personas of others are not there.
CREATE FUNCTION admin.get_persona(persona text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_id bigint := (
        SELECT id FROM public.personas
        WHERE name = persona AND (platform IS NULL OR public.parley_reaches(platform, platform_server_id))
    );
BEGIN
    IF v_id IS NULL THEN
        RAISE EXCEPTION 'there is no persona %; there are: %', quote_literal(persona), coalesce((
            SELECT string_agg(name, ', ' ORDER BY name) FROM public.personas
            WHERE platform IS NULL OR public.parley_reaches(platform, platform_server_id)
        ), 'none yet');
    END IF;
    RETURN v_id;
END
$$;
COMMENT ON FUNCTION admin.get_persona IS 'The number of a persona that is there, by its name: admin.get_persona(''Sage'').';
