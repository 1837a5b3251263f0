-- An agent with instructions has a persona of its own, which has its name and answers nowhere else. The row is afterwards what the
-- call says: what is not said has its default. A persona that it had before stays.
CREATE FUNCTION admin.define_agent(
    name text, description text, instructions text DEFAULT NULL, model text DEFAULT NULL, tools text[] DEFAULT NULL,
    steps integer DEFAULT NULL, persona text DEFAULT NULL, url text DEFAULT NULL, headers jsonb DEFAULT '{}',
    permission text DEFAULT 'guest', peers text[] DEFAULT NULL, env jsonb DEFAULT '{}', is_enabled boolean DEFAULT true
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_id bigint;
    v_persona_id bigint;
BEGIN
    IF num_nonnulls(instructions, persona, url) <> 1 THEN
        RAISE EXCEPTION 'the agent % needs one of instructions, persona and url', name;
    ELSIF instructions IS NULL AND num_nonnulls(model, tools, steps) > 0 THEN
        RAISE EXCEPTION 'model, tools and steps of the agent % belong to instructions of its own', name;
    END IF;
    SELECT agent.id INTO v_id FROM public.agents AS agent WHERE agent.name = name;
    IF instructions IS NOT NULL THEN
        IF EXISTS (SELECT FROM public.personas AS other WHERE other.name = name)
           AND NOT EXISTS (SELECT FROM public.agents AS own WHERE own.id = v_id AND own.owns_persona) THEN
            RAISE EXCEPTION 'there is a persona % that is not the agent''s own', quote_literal(name)
                USING HINT = 'Let it answer by persona => …, or give the agent another name.';
        END IF;
        PERFORM admin.define_persona(name, instructions, modules => tools, model => model, max_iterations => steps);
    END IF;
    IF url IS NULL THEN
        v_persona_id := admin.get_persona(coalesce(persona, name));
    END IF;
    INSERT INTO public.agents AS agent (
        name, description, persona_id, owns_persona, url, headers, required_permission, peers, env, is_enabled
    )
    VALUES (
        name, description, v_persona_id, instructions IS NOT NULL, url, headers, permission, to_jsonb(peers), env, is_enabled
    )
    ON CONFLICT ON CONSTRAINT uq_agents_name DO UPDATE SET
        description = excluded.description, persona_id = excluded.persona_id, owns_persona = excluded.owns_persona,
        url = excluded.url, headers = excluded.headers, required_permission = excluded.required_permission,
        peers = excluded.peers, env = excluded.env, is_enabled = excluded.is_enabled,
        -- What the agent at another address said of itself.
        card = CASE WHEN agent.url = excluded.url THEN agent.card END,
        card_fetched_at = CASE WHEN agent.url = excluded.url THEN agent.card_fetched_at END;
    RETURN format('the agent %s is %s', name, CASE WHEN v_id IS NULL THEN 'made' ELSE 'changed' END);
END
$$;
COMMENT ON FUNCTION admin.define_agent IS
    'Makes an agent, or makes it exactly this: admin.define_agent(''researcher'', ''Looks things up.'', instructions => ''Name your sources.'').';
