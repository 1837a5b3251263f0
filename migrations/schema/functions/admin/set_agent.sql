CREATE FUNCTION admin.set_agent(agent text, is_enabled boolean DEFAULT NULL, permission text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_row public.agents;
BEGIN
    IF permission NOT IN ('guest', 'user', 'admin', 'owner') THEN
        RAISE EXCEPTION 'there is no permission %; there are: guest, user, admin, owner', quote_literal(permission);
    END IF;
    UPDATE public.agents AS known SET is_enabled = coalesce(is_enabled, known.is_enabled),
        required_permission = coalesce(permission, known.required_permission)
    WHERE known.name = agent RETURNING * INTO v_row;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no agent %; there are: %', quote_literal(agent),
            coalesce((SELECT string_agg(known.name, ', ' ORDER BY known.name) FROM public.agents AS known), 'none yet');
    END IF;
    RETURN format('the agent %s is %s, for %ss and above', agent, CASE WHEN v_row.is_enabled THEN 'on' ELSE 'off' END,
                  v_row.required_permission);
END
$$;
COMMENT ON FUNCTION admin.set_agent IS
    'Switches an agent on or off, and says who may ask it: admin.set_agent(''archivist'', is_enabled => false).';
