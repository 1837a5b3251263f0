-- Adds to what these rows of `budgets`, which are locked, have used and have reserved; negative numbers give back. A row that
-- reaches 50, 80 or 100 percent for the first time in its period is listed in `budget_notices`.
CREATE FUNCTION public.parley_add_to_budgets(
    p_ids bigint[], p_tokens bigint, p_cost numeric, p_reserved_tokens bigint, p_reserved_cost numeric
)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_row record;
    v_granted record;
    v_percent smallint;
BEGIN
    UPDATE public.budgets AS b SET
        tokens_used = greatest(0, CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END + CASE WHEN p.counts THEN p_tokens ELSE 0 END),
        cost_used = greatest(0, CASE WHEN p.is_over THEN 0 ELSE b.cost_used END + CASE WHEN p.counts THEN p_cost ELSE 0 END),
        tokens_reserved = greatest(0, b.tokens_reserved + p_reserved_tokens),
        cost_reserved = greatest(0, b.cost_reserved + p_reserved_cost),
        percent_told = CASE WHEN p.is_over THEN 0 ELSE b.percent_told END, resets_at = p.resets_at
    FROM public.budgets AS before CROSS JOIN LATERAL public.parley_limit_period(before.period, before.resets_at) AS p
    WHERE before.id = b.id AND b.id = ANY (p_ids);
    IF p_tokens = 0 AND p_cost = 0 THEN
        RETURN;
    END IF;
    FOR v_row IN
        SELECT id, token_limit, cost_limit, tokens_used, cost_used, percent_told FROM public.budgets
        WHERE id = ANY (p_ids) AND percent_told < greatest(
            public.parley_threshold(tokens_used, token_limit), public.parley_threshold(cost_used, cost_limit)
        )
    LOOP
        v_granted := public.parley_granted(NULL, NULL, v_row.id);
        v_percent := greatest(
            public.parley_threshold(v_row.tokens_used, v_row.token_limit + v_granted.tokens),
            public.parley_threshold(v_row.cost_used, v_row.cost_limit + v_granted.cost)
        );
        IF v_percent > v_row.percent_told THEN
            UPDATE public.budgets SET percent_told = v_percent WHERE id = v_row.id;
            INSERT INTO public.budget_notices (limit_budget_id, percent) VALUES (v_row.id, v_percent);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_add_to_budgets IS
    'For the other functions: adds to what rows of budgets have used and reserved, and notes who has reached a threshold.';
