-- Limits as they stand now: the monthly tokens of a person and of a server, and rows of `budgets`, in this order, those by
-- their ids. What
-- has been used in a period that is over is 0. A limit of NULL is unlimited. What was granted on top is not in it (parley_granted).
--
-- The planner puts the body in place of the call.
CREATE FUNCTION public.parley_read_limits(p_limits public.parley_limits)
RETURNS TABLE (
    subject text, id bigint, kind text, period text, token_limit bigint, cost_limit numeric, tokens_used bigint,
    cost_used numeric, tokens_reserved bigint, cost_reserved numeric, percent_told smallint, resets_at timestamptz
)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT 'users', u.id, 'person', '30 days', own.budget, NULL::numeric, own.used, 0::numeric, own.reserved, 0::numeric,
           CASE WHEN u.budget_reset_at = own.resets_at THEN u.budget_percent_told ELSE 0::smallint END, own.resets_at
    FROM public.users AS u CROSS JOIN LATERAL public.parley_budget(
        u.token_budget_monthly, u.budget_from_roles, u.tokens_used_this_month, u.tokens_reserved, u.budget_reset_at
    ) AS own
    WHERE u.id = (p_limits).user_id
    UNION ALL
    SELECT 'servers', s.id, 'server', '30 days', common.budget, NULL, common.used, 0, common.reserved, 0,
           CASE WHEN s.budget_reset_at = common.resets_at THEN s.budget_percent_told ELSE 0::smallint END, common.resets_at
    FROM public.servers AS s CROSS JOIN LATERAL public.parley_budget(
        s.token_budget_monthly, NULL, s.tokens_used_this_month, s.tokens_reserved, s.budget_reset_at
    ) AS common
    WHERE s.id = (p_limits).server_id
    UNION ALL
    SELECT 'budgets', b.id, b.kind, b.period, b.token_limit, b.cost_limit,
           CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END, CASE WHEN p.is_over THEN 0 ELSE b.cost_used END,
           b.tokens_reserved, b.cost_reserved, CASE WHEN p.is_over THEN 0::smallint ELSE b.percent_told END, p.resets_at
    FROM public.budgets AS b CROSS JOIN LATERAL public.parley_limit_period(b.period, b.resets_at) AS p
    WHERE b.id = ANY ((p_limits).budget_ids);
END;
COMMENT ON FUNCTION public.parley_read_limits IS
    'Limits of a person, of a server and rows of budgets as they stand now; a limit of NULL is unlimited.';
