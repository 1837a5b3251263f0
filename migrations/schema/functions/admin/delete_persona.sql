CREATE FUNCTION admin.delete_persona(persona text, history boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.get_persona(persona);
BEGIN
    IF NOT history AND EXISTS (SELECT FROM public.turns WHERE turns.persona_id = v_id) THEN
        RAISE EXCEPTION 'the persona % has answered turns, which would no longer say who answered; to delete it all the same: history => true', persona;
    END IF;
    PERFORM set_config('parley.delete_history', 'yes', true);
    DELETE FROM public.personas WHERE id = v_id;
    PERFORM set_config('parley.delete_history', '', true);
    RETURN format('the persona %s is deleted', persona);
END
$$;
COMMENT ON FUNCTION admin.delete_persona IS 'Deletes a persona; one that has answered only with history => true: admin.delete_persona(''Sage'', history => true).';
