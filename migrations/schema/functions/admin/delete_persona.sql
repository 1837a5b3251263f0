CREATE FUNCTION admin.delete_persona(persona text, history boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM public.personas WHERE name = persona) THEN
        RAISE EXCEPTION 'there is no persona %; there are: %', quote_literal(persona),
            coalesce((SELECT string_agg(name, ', ' ORDER BY name) FROM public.personas), 'none yet');
    END IF;
    IF NOT history AND EXISTS (
        SELECT FROM public.turns JOIN public.personas ON personas.id = turns.persona_id WHERE personas.name = persona
    ) THEN
        RAISE EXCEPTION 'the persona % has answered turns, which would no longer say who answered; to delete it all the same: history => true', persona;
    END IF;
    PERFORM set_config('parley.delete_history', 'yes', true);
    DELETE FROM public.personas WHERE name = persona;
    PERFORM set_config('parley.delete_history', '', true);
    RETURN format('the persona %s is deleted', persona);
END
$$;
COMMENT ON FUNCTION admin.delete_persona IS 'Deletes a persona; one that has answered only with history => true: admin.delete_persona(''Sage'', history => true).';
