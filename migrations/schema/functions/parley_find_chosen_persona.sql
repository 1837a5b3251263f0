-- No row: it is not open to whoever has this permission, or is gone.
CREATE FUNCTION public.parley_find_chosen_persona(p_id bigint, p_permission_level text) RETURNS TABLE (
    id bigint, name text, system_prompt text, allowed_modules jsonb, default_model text, max_tokens_per_request integer,
    max_temperature double precision, max_iterations integer, loop_mode text, skills jsonb, stored_skills jsonb, version_id bigint,
    chosen_by text
)
LANGUAGE sql STABLE AS $$
    SELECT found.id, found.name, found.system_prompt, found.allowed_modules, found.default_model, found.max_tokens_per_request,
           found.max_temperature, found.max_iterations, found.loop_mode, found.skills, found.stored_skills, found.version_id,
           'request'
    FROM public.personas AS persona CROSS JOIN LATERAL public.parley_find_persona(persona.id, NULL, NULL, NULL) AS found
    WHERE persona.id = p_id AND public.parley_is_open(persona.open_to, p_permission_level)
$$;
COMMENT ON FUNCTION public.parley_find_chosen_persona IS 'The persona that somebody has chosen, if it is open to their permission.';
