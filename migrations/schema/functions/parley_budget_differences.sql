-- Compares what limits have counted with the ledger and with what running calls hold, and returns each difference: of the
-- monthly tokens of people (`users`) and of servers, and of the rows of `budgets`.
--
-- Ledger, reservations and counters are always written in one transaction, so that one snapshot shows no call half counted.
CREATE FUNCTION public.parley_budget_differences()
RETURNS TABLE (subject text, id bigint, counter text, counted numeric, ledger numeric)
LANGUAGE sql STABLE AS $$
    WITH spent_by_person AS (
        SELECT u.id, coalesce(sum(log.input_tokens + log.output_tokens), 0) AS tokens
        FROM public.users AS u CROSS JOIN LATERAL public.parley_budget(NULL, NULL, 0, 0, u.budget_reset_at) AS standing
        LEFT JOIN public.token_logs AS log ON log.user_id = u.id AND log.created_at >= standing.resets_at - interval '30 days'
        GROUP BY u.id
    ), spent_by_server AS (
        SELECT s.id, coalesce(sum(log.input_tokens + log.output_tokens), 0) AS tokens
        FROM public.servers AS s CROSS JOIN LATERAL public.parley_budget(NULL, NULL, 0, 0, s.budget_reset_at) AS standing
        LEFT JOIN public.conversations AS place USING (platform, platform_server_id)
        LEFT JOIN public.token_logs AS log
            ON log.conversation_id = place.id AND log.created_at >= standing.resets_at - interval '30 days'
        GROUP BY s.id
    ), spent_by_budget AS (
        SELECT b.id, coalesce(sum(log.input_tokens + log.output_tokens), 0) AS tokens,
               coalesce(sum(log.cost_estimate), 0) AS cost
        FROM public.budgets AS b CROSS JOIN LATERAL public.parley_limit_period(b.period, b.resets_at) AS p
        LEFT JOIN public.token_logs AS log ON b.id = ANY (log.budget_ids) AND log.created_at >= p.starts_at
        GROUP BY b.id
    ), held AS (
        SELECT user_id, server_id, budget_ids, tokens, coalesce(cost, 0) AS cost FROM public.budget_reservations
    ), compared AS (
        SELECT 'users' AS subject, u.id, 'tokens_used_this_month' AS counter, standing.used::numeric AS counted,
               spent.tokens::numeric AS ledger
        FROM public.users AS u JOIN spent_by_person AS spent USING (id) CROSS JOIN LATERAL public.parley_budget(
            NULL, NULL, u.tokens_used_this_month, 0, u.budget_reset_at
        ) AS standing
        UNION ALL
        SELECT 'users', u.id, 'tokens_reserved', u.tokens_reserved,
               (SELECT coalesce(sum(held.tokens), 0) FROM held WHERE held.user_id = u.id)
        FROM public.users AS u
        UNION ALL
        SELECT 'servers', s.id, 'tokens_used_this_month', standing.used, spent.tokens
        FROM public.servers AS s JOIN spent_by_server AS spent USING (id) CROSS JOIN LATERAL public.parley_budget(
            NULL, NULL, s.tokens_used_this_month, 0, s.budget_reset_at
        ) AS standing
        UNION ALL
        SELECT 'servers', s.id, 'tokens_reserved', s.tokens_reserved,
               (SELECT coalesce(sum(held.tokens), 0) FROM held WHERE held.server_id = s.id)
        FROM public.servers AS s
        UNION ALL
        SELECT 'budgets', b.id, one.counter, one.counted, one.ledger
        FROM public.budgets AS b JOIN spent_by_budget AS spent USING (id)
        CROSS JOIN LATERAL public.parley_limit_period(b.period, b.resets_at) AS p
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(held.tokens), 0) AS tokens, coalesce(sum(held.cost), 0) AS cost
            FROM held WHERE b.id = ANY (held.budget_ids)
        ) AS holding
        CROSS JOIN LATERAL (VALUES
            ('tokens_used', CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END, spent.tokens),
            ('cost_used', CASE WHEN p.is_over THEN 0 ELSE b.cost_used END, spent.cost),
            ('tokens_reserved', b.tokens_reserved, holding.tokens),
            ('cost_reserved', b.cost_reserved, holding.cost)
        ) AS one (counter, counted, ledger)
    )
    SELECT compared.subject, compared.id, compared.counter, compared.counted, compared.ledger
    FROM compared WHERE compared.counted <> compared.ledger ORDER BY 1, 2, 3;
$$;
COMMENT ON FUNCTION public.parley_budget_differences IS
    'Where what limits have counted differs from the ledger; no row: everything adds up.';
