CREATE FUNCTION admin.find_persona(persona text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- A deleted persona is found by its last name, before one that is called otherwise now; for a name that none has had, the
    -- last one raises.
    RETURN coalesce(
        (SELECT id FROM public.personas WHERE name = persona),
        (
            SELECT version.persona_id FROM public.persona_versions AS version WHERE version.name = persona
            ORDER BY EXISTS (SELECT FROM public.personas WHERE personas.id = version.persona_id), version.id DESC LIMIT 1
        ),
        admin.get_persona(persona)
    );
END
$$;
COMMENT ON FUNCTION admin.find_persona IS 'The number of a persona by its name, also of a deleted one: admin.find_persona(''Sage'').';
