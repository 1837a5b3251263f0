CREATE FUNCTION admin.set_limit(
    kind text, tokens bigint DEFAULT NULL, dollars numeric DEFAULT NULL, period text DEFAULT 'month',
    platform text DEFAULT NULL, account text DEFAULT NULL, server text DEFAULT NULL, channel text DEFAULT NULL,
    role text DEFAULT NULL, persona text DEFAULT NULL, permission text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_kinds text[] := '{person,permission,role,channel,persona,server,installation}';
    v_needs text;
    v_user_id bigint;
    v_persona_id bigint;
    v_id bigint;
BEGIN
    IF kind <> ALL (v_kinds) THEN
        RAISE EXCEPTION 'there is no limit for a %; there are: %', quote_literal(kind), array_to_string(v_kinds, ', ');
    ELSIF period NOT IN ('day', 'month') THEN
        RAISE EXCEPTION 'a limit is for a day or a month, not for a %', quote_literal(period);
    ELSIF tokens < 0 OR dollars < 0 THEN
        RAISE EXCEPTION 'a limit is 0 (may spend nothing), more, or NULL (unlimited)';
    END IF;
    v_needs := CASE kind
        WHEN 'person' THEN CASE WHEN platform IS NULL OR account IS NULL THEN 'platform and account' END
        WHEN 'permission' THEN CASE WHEN permission IS NULL THEN 'permission' END
        WHEN 'role' THEN CASE WHEN platform IS NULL OR server IS NULL OR role IS NULL THEN 'platform, server and role' END
        WHEN 'channel' THEN CASE WHEN platform IS NULL OR channel IS NULL THEN 'platform, channel and, where there is one, server' END
        WHEN 'persona' THEN CASE WHEN persona IS NULL THEN 'persona' END
        WHEN 'server' THEN CASE WHEN platform IS NULL OR server IS NULL THEN 'platform and server' END
    END;
    IF v_needs IS NOT NULL THEN
        RAISE EXCEPTION 'the limit for a % needs: %', kind, v_needs;
    ELSIF kind = 'permission' AND permission NOT IN ('guest', 'user', 'admin', 'owner') THEN
        RAISE EXCEPTION 'there is no permission %; there are: guest, user, admin, owner', quote_literal(permission);
    ELSIF kind = 'persona' THEN
        v_persona_id := admin.get_persona(persona);
    ELSIF kind = 'person' THEN
        v_user_id := admin.find_user(platform, account);
    END IF;
    IF kind NOT IN ('role', 'channel', 'server') THEN
        platform := NULL;
        server := NULL;
    END IF;
    SELECT b.id INTO v_id FROM public.budgets AS b
    WHERE b.kind = kind AND b.period = period AND b.user_id IS NOT DISTINCT FROM v_user_id
      AND b.persona_id IS NOT DISTINCT FROM v_persona_id AND b.permission_level IS NOT DISTINCT FROM permission
      AND b.platform IS NOT DISTINCT FROM platform AND b.platform_server_id IS NOT DISTINCT FROM server
      AND b.role IS NOT DISTINCT FROM role AND b.platform_channel_id IS NOT DISTINCT FROM channel;
    IF tokens IS NULL AND dollars IS NULL THEN
        DELETE FROM public.budgets WHERE id = v_id;
        RETURN format('the %s has no limit for a %s any more', kind, period);
    ELSIF v_id IS NULL THEN
        INSERT INTO public.budgets (kind, period, user_id, persona_id, permission_level, platform, platform_server_id, role,
                                    platform_channel_id, token_limit, cost_limit)
        VALUES (kind, period, v_user_id, v_persona_id, permission, platform, server, role, channel, tokens, dollars)
        RETURNING id INTO v_id;
    ELSE
        UPDATE public.budgets SET token_limit = tokens, cost_limit = dollars WHERE id = v_id;
    END IF;
    RETURN format('limit %s: %s may use %s in a %s', v_id,
        CASE kind WHEN 'installation' THEN 'all people together' ELSE 'the ' || kind END,
        concat_ws(' and ', tokens || ' tokens', dollars || ' dollars'), period);
END
$$;
COMMENT ON FUNCTION admin.set_limit IS
    'Limits tokens or dollars for a day or month of a person, permission, role, channel, persona, server or the installation; NULL for both lifts it.';
