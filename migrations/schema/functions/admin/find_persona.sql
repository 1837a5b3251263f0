CREATE FUNCTION admin.find_persona(persona text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_id bigint;
BEGIN
    -- A deleted persona is found by its last name.
    SELECT coalesce(
        (SELECT id FROM public.personas WHERE name = persona),
        (SELECT persona_id FROM public.persona_versions WHERE name = persona ORDER BY id DESC LIMIT 1)
    ) INTO v_id;
    IF v_id IS NULL THEN
        RAISE EXCEPTION 'there is no persona %; there are: %', quote_literal(persona),
            coalesce((SELECT string_agg(name, ', ' ORDER BY name) FROM public.personas), 'none yet');
    END IF;
    RETURN v_id;
END
$$;
COMMENT ON FUNCTION admin.find_persona IS 'The number of a persona by its name, also of a deleted one: admin.find_persona(''Sage'').';
