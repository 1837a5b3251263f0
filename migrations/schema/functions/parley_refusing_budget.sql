-- The first of these rows of `budgets`, which are locked, that does not admit one more call: an exhausted one before one that
-- is only busy. NULL when all admit it: used + reserved < limit.
--
-- p_cost: upper estimate of the call in dollars, NULL when the price of a model that may be asked is unknown. A limit in dollars
-- refuses such a call, because nobody could say what is left after it.
CREATE FUNCTION public.parley_refusing_budget(p_ids bigint[], p_cost numeric) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_row record;
    v_granted record;
    v_one jsonb;
    v_found jsonb;
BEGIN
    FOR v_row IN
        SELECT b.id, b.kind, b.period, b.token_limit, b.cost_limit, p.resets_at, b.tokens_reserved, b.cost_reserved,
               CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END AS tokens_used,
               CASE WHEN p.is_over THEN 0 ELSE b.cost_used END AS cost_used
        FROM public.budgets AS b CROSS JOIN LATERAL public.parley_limit_period(b.period, b.resets_at) AS p
        WHERE b.id = ANY (p_ids) ORDER BY b.id
    LOOP
        v_one := NULL;
        IF v_row.tokens_used + v_row.tokens_reserved >= v_row.token_limit
           OR v_row.cost_used + v_row.cost_reserved >= v_row.cost_limit THEN
            v_granted := public.parley_granted(NULL, NULL, v_row.id);
            v_row.token_limit := v_row.token_limit + v_granted.tokens;
            v_row.cost_limit := v_row.cost_limit + v_granted.cost;
        END IF;
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
        IF v_one ->> 'cause' = 'exhausted' THEN
            RETURN v_one || jsonb_build_object('budget_id', v_row.id);
        END IF;
        v_found := coalesce(v_found, v_one || jsonb_build_object('budget_id', v_row.id));
    END LOOP;
    RETURN v_found;
END
$$;
COMMENT ON FUNCTION public.parley_refusing_budget IS
    'For the other functions: which of these rows of budgets refuses one more call, as JSON; NULL when all admit it.';
