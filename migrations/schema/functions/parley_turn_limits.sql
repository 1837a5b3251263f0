-- The limits that a turn's model calls have to keep to, as they stand when the statement begins: [{limit, period, unit, allowed,
-- granted, used, reserved, renews_at}]. A call is admitted while used + reserved < allowed + granted, for each of them; `allowed`
-- is NULL where a person has no limit. For turn_contexts: when a turn ends, its last payment is not yet part of `used`.
CREATE FUNCTION public.parley_turn_limits(p_turn_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_limits public.parley_limits;
BEGIN
    v_limits := public.parley_limits_of(ROW(turns.user_id, turns.conversation_id, turns.persona_id, turns.id, false))
    FROM public.turns WHERE id = p_turn_id;
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'limit', one.kind, 'period', one.period, 'unit', kept.unit, 'allowed', kept.allowed, 'granted', CASE
                WHEN kept.allowed IS NOT NULL AND EXISTS (
                    -- Every turn asks, and most installations have none.
                    SELECT FROM public.budget_grants WHERE status = 'granted' AND ends_at > now()
                ) THEN (
                    SELECT CASE kept.unit WHEN 'tokens' THEN granted.tokens ELSE granted.cost END
                    FROM public.parley_granted(
                        CASE one.subject WHEN 'users' THEN one.id END, CASE one.subject WHEN 'servers' THEN one.id END,
                        CASE one.subject WHEN 'budgets' THEN one.id END
                    ) AS granted
                ) WHEN kept.allowed IS NOT NULL THEN 0 END,
            'used', kept.used, 'reserved', kept.reserved, 'renews_at', one.resets_at
        ) ORDER BY array_position('{users,servers,budgets}', one.subject), one.id, kept.unit DESC), '[]')
        FROM public.parley_read_limits(v_limits) AS one
        CROSS JOIN LATERAL (VALUES
            ('tokens', one.token_limit::numeric, one.tokens_used::numeric, one.tokens_reserved::numeric),
            ('dollars', one.cost_limit, one.cost_used, one.cost_reserved)
        ) AS kept (unit, allowed, used, reserved)
        WHERE kept.allowed IS NOT NULL OR one.subject = 'users' AND kept.unit = 'tokens'
    );
END
$$;
COMMENT ON FUNCTION public.parley_turn_limits IS 'The limits that a turn has to keep to, as they stand now, as JSON.';
