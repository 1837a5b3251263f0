-- The limits that a turn's model calls have to keep to, as they stand when the statement begins: [{limit, period, unit, allowed,
-- granted, used, reserved, renews_at}]. A call is admitted while used + reserved < allowed + granted, for each of them; `allowed`
-- is NULL where a person has no limit. For turn_contexts: when a turn ends, its last payment is not yet part of `used`.
CREATE FUNCTION public.parley_turn_limits_v1(p_turn_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_turn record;
BEGIN
    -- In plpgsql, because the plan is kept: every turn asks.
    SELECT turns.user_id, turns.conversation_id, turns.persona_id INTO v_turn FROM public.turns WHERE turns.id = p_turn_id;
    RETURN (SELECT jsonb_agg(standing) FROM (
        SELECT 'person' AS "limit", '30 days' AS period, 'tokens' AS unit, own.budget::numeric AS allowed,
               CASE WHEN own.budget IS NOT NULL THEN (public.parley_granted_v1(users.id, NULL, NULL)).tokens END::numeric AS granted,
               own.used::numeric AS used, own.reserved::numeric AS reserved, own.resets_at AS renews_at
        FROM public.users CROSS JOIN LATERAL public.parley_budget_v1(
            token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
        ) AS own
        WHERE users.id = v_turn.user_id
        UNION ALL
        SELECT 'server', '30 days', 'tokens', common.budget, (public.parley_granted_v1(NULL, servers.id, NULL)).tokens,
               common.used, common.reserved, common.resets_at
        FROM public.conversations JOIN public.servers USING (platform, platform_server_id)
        CROSS JOIN LATERAL public.parley_budget_v1(
            token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
        ) AS common
        WHERE conversations.id = v_turn.conversation_id AND servers.token_budget_monthly IS NOT NULL
        UNION ALL
        SELECT one.kind, one.period, one.unit, one.allowed, one.granted, one.used, one.reserved, one.resets_at
        FROM unnest(public.parley_find_budgets_v1(v_turn.user_id, v_turn.conversation_id, v_turn.persona_id)) AS found (id)
        CROSS JOIN LATERAL (
            SELECT b.kind, b.period, kept.unit, kept.allowed, kept.granted, kept.used, kept.reserved, p.resets_at
            FROM public.budgets AS b CROSS JOIN LATERAL public.parley_limit_period_v1(b.period, b.resets_at) AS p
            CROSS JOIN LATERAL public.parley_granted_v1(NULL, NULL, b.id) AS extra
            CROSS JOIN LATERAL (VALUES
                ('tokens', b.token_limit, extra.tokens, CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END, b.tokens_reserved),
                ('dollars', b.cost_limit, extra.cost, CASE WHEN p.is_over THEN 0 ELSE b.cost_used END, b.cost_reserved)
            ) AS kept (unit, allowed, granted, used, reserved)
            WHERE b.id = found.id AND kept.allowed IS NOT NULL
        ) AS one
    ) AS standing);
END
$$;
COMMENT ON FUNCTION public.parley_turn_limits_v1 IS 'The limits that a turn has to keep to, as they stand now, as JSON.';
