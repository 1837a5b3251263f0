-- The first of these limits, which are locked, that does not admit one more call (parley_refusal): an exhausted one before one
-- that is only busy, the person's before the server's, and both before rows of `budgets`. NULL when all admit it:
-- used + reserved < limit.
--
-- p_cost: upper estimate of the call in dollars, NULL when the price of a model that may be asked is unknown. A limit in dollars
-- refuses such a call, because nobody could say what is left after it.
-- p_reserved_tokens, p_reserved_cost: added to what they have reserved; negative for a call that is reserved already.
CREATE FUNCTION public.parley_refusing_limit(
    p_limits public.parley_limits, p_cost numeric, p_reserved_tokens bigint DEFAULT 0, p_reserved_cost numeric DEFAULT 0
)
RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_row record;
    v_granted record;
    v_one jsonb;
    v_first jsonb;
BEGIN
    FOR v_row IN
        SELECT one.subject, one.id, one.kind, one.period, one.token_limit, one.cost_limit, one.resets_at, one.tokens_used,
               one.cost_used, held.tokens_reserved, held.cost_reserved
        FROM public.parley_read_limits(p_limits) AS one
        CROSS JOIN LATERAL (
            SELECT greatest(0, one.tokens_reserved + p_reserved_tokens) AS tokens_reserved,
                   greatest(0, one.cost_reserved + p_reserved_cost) AS cost_reserved
        ) AS held
        WHERE one.tokens_used + held.tokens_reserved >= one.token_limit OR one.cost_used + held.cost_reserved >= one.cost_limit
           OR one.cost_limit IS NOT NULL AND p_cost IS NULL
        ORDER BY array_position('{users,servers,budgets}', one.subject), one.id
    LOOP
        v_one := NULL;
        v_granted := public.parley_granted(
            CASE v_row.subject WHEN 'users' THEN v_row.id END, CASE v_row.subject WHEN 'servers' THEN v_row.id END,
            CASE v_row.subject WHEN 'budgets' THEN v_row.id END
        );
        v_row.token_limit := v_row.token_limit + v_granted.tokens;
        v_row.cost_limit := v_row.cost_limit + v_granted.cost;
        IF v_row.tokens_used + v_row.tokens_reserved >= v_row.token_limit THEN
            v_one := public.parley_refusal(
                v_row.kind, 'tokens', v_row.period, v_row.tokens_used, v_row.token_limit, v_row.resets_at
            );
        END IF;
        IF v_row.cost_used + v_row.cost_reserved >= v_row.cost_limit
           AND (v_one IS NULL OR v_row.cost_used >= v_row.cost_limit) THEN
            v_one := public.parley_refusal(
                v_row.kind, 'dollars', v_row.period, v_row.cost_used, v_row.cost_limit, v_row.resets_at
            );
        ELSIF v_one IS NULL AND v_row.cost_limit IS NOT NULL AND p_cost IS NULL THEN
            v_one := public.parley_refusal(
                v_row.kind, 'dollars', v_row.period, v_row.cost_used, v_row.cost_limit, v_row.resets_at, 'unpriced'
            );
        END IF;
        v_one := v_one || CASE v_row.subject WHEN 'budgets' THEN jsonb_build_object('budget_id', v_row.id) ELSE '{}' END;
        IF v_one ->> 'cause' = 'exhausted' THEN
            RETURN v_one;
        END IF;
        v_first := coalesce(v_first, v_one);
    END LOOP;
    RETURN v_first;
END
$$;
COMMENT ON FUNCTION public.parley_refusing_limit IS
    'Which of these limits refuses one more call, as JSON; NULL when all admit it.';
