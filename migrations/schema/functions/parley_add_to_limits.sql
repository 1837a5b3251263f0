-- Adds to what these limits, which are locked, have used and have reserved; negative numbers give back. A period that is over
-- ends here, and nowhere else: what was used goes back to 0. A limit that reaches 50, 80 or 100 percent for the first time in
-- its period, with what was granted on top of it, is listed in `budget_notices`.
--
-- p_spent_at: when it was spent, as the ledger says. What was spent before a limit's current period began is no part of it,
-- whether its transaction was slow or the call is paid again. A period that has not begun, because somebody has moved its end,
-- counts everything.
--
-- Dollars are counted by rows of `budgets` alone. Returns whether one of them may be full now, so that parley_refusing_limit has
-- to be asked; mostly none is.
CREATE FUNCTION public.parley_add_to_limits(
    p_limits public.parley_limits, p_tokens bigint, p_cost numeric, p_reserved_tokens bigint, p_reserved_cost numeric,
    p_spent_at timestamptz DEFAULT now(), OUT is_tight boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_row record;
    v_granted record;
    v_percent smallint;
    v_is_person_near boolean;
    v_is_server_near boolean;
    v_is_person_tight boolean;
    v_is_server_tight boolean;
BEGIN
    UPDATE public.users SET (tokens_used_this_month, tokens_reserved, budget_percent_told, budget_reset_at) = (
        SELECT month.used, greatest(0, tokens_reserved + p_reserved_tokens), month.percent_told, month.resets_at
        FROM public.parley_add_to_month(
            tokens_used_this_month, budget_percent_told, budget_reset_at, p_tokens, p_spent_at
        ) AS month
    ) WHERE id = p_limits.user_id
    RETURNING public.parley_threshold(tokens_used_this_month, token_budget_monthly) > budget_percent_told,
              tokens_used_this_month + tokens_reserved >= token_budget_monthly
    INTO v_is_person_near, v_is_person_tight;
    -- In direct messages there is no server, and no statement that looks for one.
    IF p_limits.server_id IS NOT NULL THEN
        UPDATE public.servers SET (tokens_used_this_month, tokens_reserved, budget_percent_told, budget_reset_at) = (
            SELECT month.used, greatest(0, tokens_reserved + p_reserved_tokens), month.percent_told, month.resets_at
            FROM public.parley_add_to_month(
                tokens_used_this_month, budget_percent_told, budget_reset_at, p_tokens, p_spent_at
            ) AS month
        ) WHERE id = p_limits.server_id
        RETURNING public.parley_threshold(tokens_used_this_month, token_budget_monthly) > budget_percent_told,
                  tokens_used_this_month + tokens_reserved >= token_budget_monthly
        INTO v_is_server_near, v_is_server_tight;
    END IF;
    is_tight := coalesce(v_is_person_tight, false) OR coalesce(v_is_server_tight, false) OR p_limits.budget_ids IS NOT NULL;
    IF p_limits.budget_ids IS NOT NULL THEN
        UPDATE public.budgets AS b SET (tokens_used, cost_used, tokens_reserved, cost_reserved, percent_told, resets_at) = (
            SELECT greatest(0, CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END + CASE WHEN one.counts THEN p_tokens ELSE 0 END),
                   greatest(0, CASE WHEN p.is_over THEN 0 ELSE b.cost_used END + CASE WHEN one.counts THEN p_cost ELSE 0 END),
                   greatest(0, b.tokens_reserved + p_reserved_tokens), greatest(0, b.cost_reserved + p_reserved_cost),
                   CASE WHEN p.is_over THEN 0 ELSE b.percent_told END, p.resets_at
            FROM public.parley_limit_period(b.period, b.resets_at) AS p
            CROSS JOIN LATERAL (SELECT p_spent_at >= p.starts_at OR p.starts_at > clock_timestamp() AS counts) AS one
        ) WHERE b.id = ANY (p_limits.budget_ids);
    END IF;
    IF p_tokens = 0 AND p_cost = 0
       OR NOT (coalesce(v_is_person_near, false) OR coalesce(v_is_server_near, false) OR p_limits.budget_ids IS NOT NULL) THEN
        RETURN;
    END IF;
    FOR v_row IN
        SELECT one.*, CASE one.subject WHEN 'users' THEN one.id END AS user_id,
               CASE one.subject WHEN 'servers' THEN one.id END AS server_id,
               CASE one.subject WHEN 'budgets' THEN one.id END AS budget_id
        FROM public.parley_read_limits(p_limits) AS one WHERE one.percent_told < greatest(
            public.parley_threshold(one.tokens_used, one.token_limit), public.parley_threshold(one.cost_used, one.cost_limit)
        )
    LOOP
        v_granted := public.parley_granted(v_row.user_id, v_row.server_id, v_row.budget_id);
        v_percent := greatest(
            public.parley_threshold(v_row.tokens_used, v_row.token_limit + v_granted.tokens),
            public.parley_threshold(v_row.cost_used, v_row.cost_limit + v_granted.cost)
        );
        CONTINUE WHEN v_percent <= v_row.percent_told;
        UPDATE public.users SET budget_percent_told = v_percent WHERE id = v_row.user_id;
        UPDATE public.servers SET budget_percent_told = v_percent WHERE id = v_row.server_id;
        UPDATE public.budgets SET percent_told = v_percent WHERE id = v_row.budget_id;
        INSERT INTO public.budget_notices (limit_user_id, limit_server_id, limit_budget_id, percent)
        VALUES (v_row.user_id, v_row.server_id, v_row.budget_id, v_percent);
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_add_to_limits IS
    'For the other functions: adds to what limits have used and reserved, and notes which have reached a threshold.';
