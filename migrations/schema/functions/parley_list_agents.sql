-- The agents that can be asked, for `agent/agents/delegation/agents.py`: name, description, who may, persona, whom they may ask,
-- and whether they have scripted answers. One row: the planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_list_agents() RETURNS TABLE (agents json)
LANGUAGE sql STABLE AS $$
    SELECT json_agg(json_build_array(name, description, required_permission, persona_id, peers, env <> '{}') ORDER BY name) AS agents
    FROM public.agents WHERE is_enabled
$$;
COMMENT ON FUNCTION public.parley_list_agents IS 'The agents that can be asked, by name.';
REVOKE EXECUTE ON FUNCTION public.parley_list_agents FROM parley_admin;
