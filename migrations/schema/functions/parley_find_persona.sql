-- The persona with this id; without one, the persona of the channel, else of the server, the platform, or the default.
-- `chosen_by` says which of these it is. The planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_find_persona(
    p_id bigint, p_platform text, p_server text, p_channel text
) RETURNS TABLE (
    id bigint, name text, system_prompt text, allowed_modules jsonb, default_model text, max_tokens_per_request integer,
    max_temperature double precision, max_iterations integer, loop_mode text, skills jsonb, stored_skills jsonb, version_id bigint,
    chosen_by text
)
LANGUAGE sql STABLE AS $$
    SELECT persona.id, persona.name, persona.system_prompt, persona.allowed_modules, persona.default_model,
           persona.max_tokens_per_request, persona.max_temperature, persona.max_iterations, persona.loop_mode,
           persona.skills,
           CASE WHEN persona.skills IS NOT NULL THEN (
               SELECT jsonb_agg(jsonb_build_array(skill.name, skill.description) ORDER BY skill.name)
               FROM public.skills AS skill
               WHERE skill.is_enabled AND jsonb_exists(persona.skills, skill.name)
           ) END,
           (SELECT version.id FROM public.persona_versions AS version
            WHERE version.persona_id = persona.id ORDER BY version.version DESC LIMIT 1),
           CASE WHEN p_id IS NULL THEN (ARRAY['default', 'platform', 'server', 'channel'])[1 + place.closeness] END
    FROM public.personas AS persona CROSS JOIN LATERAL (
        SELECT CASE WHEN persona.platform = p_platform
                         AND (persona.platform_server_id IS NULL OR persona.platform_server_id = p_server)
                         AND (persona.platform_channel_id IS NULL OR persona.platform_channel_id = p_channel)
               THEN CASE WHEN persona.platform_channel_id IS NOT NULL THEN 3
                         WHEN persona.platform_server_id IS NOT NULL THEN 2 ELSE 1 END
               ELSE 0 END AS closeness
    ) AS place
    WHERE persona.id = p_id OR p_id IS NULL AND (place.closeness > 0 OR persona.is_default)
    ORDER BY place.closeness DESC, persona.id LIMIT 1
$$;
COMMENT ON FUNCTION public.parley_find_persona IS
    'The persona with an id, or the one that answers in a channel: its own, else that of the server, the platform, the default.';
