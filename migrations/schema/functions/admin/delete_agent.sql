CREATE FUNCTION admin.delete_agent(agent text) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_row admin.agents;
BEGIN
    SELECT * INTO v_row FROM admin.agents AS listed WHERE listed.name = agent;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no agent %; there are: %', quote_literal(agent),
            coalesce((SELECT string_agg(name, ', ' ORDER BY name) FROM public.agents), 'none yet');
    END IF;
    DELETE FROM public.agents WHERE id = v_row.id;
    -- One that has become more than the agent's stays.
    IF v_row.has_own_persona THEN
        -- Its turns say by `agent` who answered.
        PERFORM admin.delete_persona(v_row.persona, history => true);
    END IF;
    RETURN format('the agent %s is deleted', agent);
END
$$;
COMMENT ON FUNCTION admin.delete_agent IS 'Deletes an agent, and its persona where that is its own: admin.delete_agent(''researcher'').';
