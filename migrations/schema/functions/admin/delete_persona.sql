CREATE FUNCTION admin.delete_persona(persona text, history boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.get_persona(persona);
    -- They would go with it.
    v_agents text := (SELECT string_agg(name, ', ' ORDER BY name) FROM public.agents WHERE persona_id = v_id);
BEGIN
    IF v_agents IS NOT NULL THEN
        RAISE EXCEPTION 'the persona % answers for: %; delete these agents before, or let others answer for them', persona, v_agents;
    END IF;
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
