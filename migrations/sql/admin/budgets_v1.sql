-- Limits for admins: one view of all, and one function that sets each kind.

CREATE VIEW admin.budgets AS
WITH limits AS (
    SELECT 'person' AS kind, coalesce(person.name, 'user ' || u.id) AS name, '30 days' AS period, 'tokens' AS unit,
           standing.budget::numeric AS allowed, granted.tokens::numeric AS granted, standing.used::numeric AS used,
           standing.reserved::numeric AS reserved, standing.resets_at, 'users' AS "table", u.id
    FROM public.users AS u JOIN admin.users AS person USING (id) CROSS JOIN LATERAL public.parley_budget_v1(
        u.token_budget_monthly, u.budget_from_roles, u.tokens_used_this_month, u.tokens_reserved, u.budget_reset_at
    ) AS standing CROSS JOIN LATERAL public.parley_granted_v1(u.id, NULL, NULL) AS granted
    WHERE u.token_budget_monthly IS NOT NULL
    UNION ALL
    SELECT 'server', coalesce(s.name, s.platform || ':' || s.platform_server_id), '30 days', 'tokens', standing.budget,
           granted.tokens, standing.used, standing.reserved, standing.resets_at, 'servers', s.id
    FROM public.servers AS s CROSS JOIN LATERAL public.parley_budget_v1(
        s.token_budget_monthly, NULL, s.tokens_used_this_month, s.tokens_reserved, s.budget_reset_at
    ) AS standing CROSS JOIN LATERAL public.parley_granted_v1(NULL, s.id, NULL) AS granted
    WHERE s.token_budget_monthly IS NOT NULL
    UNION ALL
    SELECT b.kind, coalesce(
               person.name, persona.name, b.permission_level,
               concat_ws(':', b.platform, coalesce(server.name, b.platform_server_id), b.role, b.platform_channel_id)
           ), b.period, one.unit, one.allowed, one.granted, one.used, one.reserved, p.resets_at, 'budgets', b.id
    FROM public.budgets AS b CROSS JOIN LATERAL public.parley_limit_period_v1(b.period, b.resets_at) AS p
    CROSS JOIN LATERAL public.parley_granted_v1(NULL, NULL, b.id) AS granted
    CROSS JOIN LATERAL (VALUES
        ('tokens', b.token_limit, granted.tokens, CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END, b.tokens_reserved),
        ('dollars', b.cost_limit, granted.cost, CASE WHEN p.is_over THEN 0 ELSE b.cost_used END, b.cost_reserved)
    ) AS one (unit, allowed, granted, used, reserved)
    LEFT JOIN admin.users AS person ON person.id = b.user_id
    LEFT JOIN public.personas AS persona ON persona.id = b.persona_id
    LEFT JOIN public.servers AS server ON server.platform = b.platform AND server.platform_server_id = b.platform_server_id
    WHERE one.allowed IS NOT NULL
)
SELECT kind, name, period, unit, allowed, granted, used, reserved, greatest(0, allowed + granted - used - reserved) AS "left",
       resets_at, "table", id
FROM limits ORDER BY used / nullif(allowed + granted, 0) DESC NULLS LAST;
COMMENT ON VIEW admin.budgets IS
    'Every limit: allowed, granted on top, used, reserved by running calls, left, and when it begins again; the fullest first.';

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
        SELECT id INTO v_persona_id FROM public.personas WHERE personas.name = persona;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no persona %; there are: %', quote_literal(persona),
                coalesce((SELECT string_agg(name, ', ' ORDER BY name) FROM public.personas), 'none yet');
        END IF;
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

CREATE FUNCTION admin.grant_more(limit_table text, limit_id bigint, until timestamptz, tokens bigint DEFAULT 0, dollars numeric DEFAULT 0)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM admin.budgets AS b WHERE b."table" = limit_table AND b.id = limit_id) THEN
        RAISE EXCEPTION 'there is no limit % %', limit_table, limit_id
            USING HINT = 'SELECT "table", id, kind, name FROM admin.budgets shows them.';
    ELSIF until IS NULL OR until <= now() THEN
        RAISE EXCEPTION 'a grant ends in the future';
    ELSIF tokens <= 0 AND dollars <= 0 THEN
        RAISE EXCEPTION 'a grant has tokens => or dollars => above 0';
    END IF;
    INSERT INTO public.budget_grants (limit_user_id, limit_server_id, limit_budget_id, status, tokens, cost, ends_at, decided_at)
    SELECT CASE limit_table WHEN 'users' THEN limit_id END, CASE limit_table WHEN 'servers' THEN limit_id END,
           CASE limit_table WHEN 'budgets' THEN limit_id END, 'granted', tokens, dollars, until, now();
    RETURN format('%s tokens and %s dollars more until %s', tokens, dollars, until);
END
$$;
COMMENT ON FUNCTION admin.grant_more IS
    'More on top of a limit until a date: admin.grant_more(''users'', 17, now() + interval ''7 days'', tokens => 20000), ids from admin.budgets.';
