-- The limits that a turn's model calls have to keep to, as they stand when the statement begins: [{limit, period, unit, allowed,
-- granted, used, reserved, renews_at}]. A call is admitted while used + reserved < allowed + granted, for each of them; `allowed`
-- is NULL where a person has no limit. For turn_contexts: when a turn ends, its last payment is not yet part of `used`.
--
-- Every turn asks: each kind of limit is a statement of its own, and what an installation does not have is not searched.
CREATE FUNCTION public.parley_turn_limits(p_turn_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_turn record;
    v_found record;
    v_has_grants boolean := EXISTS (SELECT FROM public.budget_grants WHERE status = 'granted' AND ends_at > now());
    v_granted bigint := 0;
    v_limits jsonb := '[]';
BEGIN
    SELECT user_id, conversation_id, persona_id INTO v_turn FROM public.turns WHERE id = p_turn_id;

    SELECT own.* INTO v_found FROM public.users CROSS JOIN LATERAL public.parley_budget(
        token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
    ) AS own
    WHERE users.id = v_turn.user_id;
    IF FOUND THEN
        IF v_has_grants THEN
            v_granted := (public.parley_granted(v_turn.user_id, NULL, NULL)).tokens;
        END IF;
        v_limits := jsonb_build_array(jsonb_build_object(
            'limit', 'person', 'period', '30 days', 'unit', 'tokens', 'allowed', v_found.budget,
            'granted', CASE WHEN v_found.budget IS NOT NULL THEN v_granted END,
            'used', v_found.used, 'reserved', v_found.reserved, 'renews_at', v_found.resets_at
        ));
    END IF;

    SELECT servers.id, common.* INTO v_found FROM public.conversations JOIN public.servers USING (platform, platform_server_id)
    CROSS JOIN LATERAL public.parley_budget(
        token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
    ) AS common
    WHERE conversations.id = v_turn.conversation_id AND servers.token_budget_monthly IS NOT NULL;
    IF FOUND THEN
        IF v_has_grants THEN
            v_granted := (public.parley_granted(NULL, v_found.id, NULL)).tokens;
        END IF;
        v_limits := v_limits || jsonb_build_object(
            'limit', 'server', 'period', '30 days', 'unit', 'tokens', 'allowed', v_found.budget, 'granted', v_granted,
            'used', v_found.used, 'reserved', v_found.reserved, 'renews_at', v_found.resets_at
        );
    END IF;

    IF EXISTS (SELECT FROM public.budgets) THEN
        v_limits := v_limits || coalesce((
            SELECT jsonb_agg(jsonb_build_object(
                'limit', b.kind, 'period', b.period, 'unit', kept.unit, 'allowed', kept.allowed, 'granted', kept.granted,
                'used', kept.used, 'reserved', kept.reserved, 'renews_at', p.resets_at
            ))
            FROM unnest(
                public.parley_find_budgets(v_turn.user_id, v_turn.conversation_id, v_turn.persona_id)
            ) AS found (id)
            JOIN public.budgets AS b ON b.id = found.id
            CROSS JOIN LATERAL public.parley_limit_period(b.period, b.resets_at) AS p
            CROSS JOIN LATERAL public.parley_granted(NULL, NULL, b.id) AS extra
            CROSS JOIN LATERAL (VALUES
                ('tokens', b.token_limit::numeric, extra.tokens::numeric,
                 CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END::numeric, b.tokens_reserved::numeric),
                ('dollars', b.cost_limit, extra.cost, CASE WHEN p.is_over THEN 0 ELSE b.cost_used END, b.cost_reserved)
            ) AS kept (unit, allowed, granted, used, reserved)
            WHERE kept.allowed IS NOT NULL
        ), '[]');
    END IF;
    RETURN v_limits;
END
$$;
COMMENT ON FUNCTION public.parley_turn_limits IS 'The limits that a turn has to keep to, as they stand now, as JSON.';
