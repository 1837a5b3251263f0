-- What counts in a place, line by line, and which row says so; the same order of closeness as the program's.
CREATE FUNCTION admin.explain_place(platform text, server text, channel text DEFAULT NULL)
RETURNS TABLE (what text, value text, why text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    v_persona record;
    v_mode public.channel_modes;
    -- Found first, because the view would work out every limit before.
    v_limits bigint[];
    v_form constant text := 'FM999,999,999,999,990.99';
BEGIN
    SELECT * INTO v_persona FROM public.parley_find_persona(NULL, platform, server, channel);
    SELECT rule.* INTO v_mode FROM public.channel_modes AS rule
    WHERE rule.platform = platform AND coalesce(rule.platform_server_id, server) = server
      AND (rule.platform_channel_id IS NULL OR rule.platform_channel_id = channel)
    ORDER BY rule.platform_channel_id IS NULL, rule.platform_server_id IS NULL LIMIT 1;
    RETURN QUERY
    SELECT 'pause'::text, 'paused'::text, format('the server is paused since %s', to_char(s.paused_at, 'YYYY-MM-DD HH24:MI TZ'))
    FROM public.servers AS s WHERE s.platform = platform AND s.platform_server_id = server AND s.paused_at IS NOT NULL;
    RETURN QUERY
    SELECT 'answers'::text, CASE coalesce(v_mode.mode, 'mention')
        WHEN 'mention' THEN 'when it is called' WHEN 'always' THEN 'every message' ELSE 'never' END, CASE
        WHEN v_mode.id IS NULL THEN 'no mode is set'
        WHEN v_mode.platform_channel_id IS NOT NULL THEN 'set for this channel'
        ELSE 'set for all channels of the server' END;
    RETURN QUERY
    SELECT 'thread per question'::text, 'yes'::text, 'as its mode'::text WHERE v_mode.thread_per_question
    UNION ALL
    SELECT 'answers others', 'yes', 'as its mode' WHERE v_mode.answers_others;
    RETURN QUERY
    SELECT 'persona'::text, coalesce(v_persona.name, 'the built-in one'), CASE coalesce(v_persona.chosen_by, '')
        WHEN 'channel' THEN 'it belongs to this channel' WHEN 'server' THEN 'it belongs to the server'
        WHEN 'platform' THEN 'it belongs to the platform' WHEN 'default' THEN 'it is the default, and no closer one is there'
        ELSE 'there is no other for this place' END;
    RETURN QUERY
    SELECT 'model'::text, v_persona.default_model, 'the persona names it'::text WHERE v_persona.default_model IS NOT NULL
    UNION ALL
    SELECT 'modules', (SELECT string_agg(module, ', ' ORDER BY module) FROM jsonb_array_elements_text(v_persona.allowed_modules) AS module),
           'the persona allows these alone' WHERE v_persona.allowed_modules IS NOT NULL;
    v_limits := ARRAY(
        SELECT budget.id FROM public.budgets AS budget
        WHERE budget.kind = 'installation' OR budget.persona_id = v_persona.id OR budget.platform = platform AND (
                  budget.kind = 'server' AND budget.platform_server_id = server
               OR budget.kind = 'channel' AND budget.platform_channel_id = channel
                  AND budget.platform_server_id IS NOT DISTINCT FROM server
              )
    );
    RETURN QUERY
    SELECT 'limit'::text,
           format(
               '%s %s in %s, %s used', rtrim(to_char(b.allowed + b.granted, v_form), '.'), b.unit,
               CASE b.period WHEN '30 days' THEN '30 days' ELSE 'a ' || b.period END, rtrim(to_char(b.used, v_form), '.')
           ),
           CASE b."table" WHEN 'servers' THEN 'the server''s budget' ELSE format('a limit of the %s', b.kind) END
    FROM (
        SELECT limits.* FROM admin.budgets AS limits
        WHERE limits."table" = 'servers' AND limits.platform = explain_place.platform AND limits.server = explain_place.server
        UNION ALL
        SELECT limits.* FROM admin.budgets AS limits WHERE limits."table" = 'budgets' AND limits.id = ANY (v_limits)
    ) AS b;
    RETURN QUERY
    SELECT 'role'::text, format('%s: %s', r.role, concat_ws(', ', r.permission_level, r.token_budget || ' tokens in 30 days')),
           'whoever has the role on this server'::text
    FROM public.role_grants AS r WHERE r.platform = platform AND r.server = server ORDER BY r.id;
END
$$;
COMMENT ON FUNCTION admin.explain_place IS
    'What counts in a place and why: SELECT * FROM admin.explain_place(''discord'', ''81384788765712384'', ''381870553235193857'').';
