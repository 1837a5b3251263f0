-- For parley_charge: calls that the ledger has already, all but those with these reservations, replace their rows. Returns what
-- they cost more than before, and the rows of `budgets` that were charged then and are charged the difference.
CREATE FUNCTION public.parley_pay_again(
    p_calls jsonb, p_paid bigint[], OUT tokens bigint, OUT cost numeric, OUT budget_ids bigint[]
)
LANGUAGE sql AS $$
    WITH again AS (
        SELECT known.id, known.input_tokens + known.output_tokens AS tokens, known.cost_estimate, known.budget_ids, call.model,
               greatest(0, call.input_tokens) AS input_tokens, greatest(0, call.cached_tokens) AS cached_tokens,
               greatest(0, call.output_tokens) AS output_tokens, call.cost, coalesce(call.is_estimated, false) AS is_estimated
        FROM jsonb_to_recordset(p_calls) AS call
            (reservation_id bigint, model text, input_tokens int, cached_tokens int, output_tokens int, cost numeric(14, 8),
             is_estimated boolean)
        JOIN public.token_logs AS known USING (reservation_id)
        WHERE call.reservation_id <> ALL (array_remove(p_paid, NULL))
    ), replaced AS (
        UPDATE public.token_logs SET model = again.model, input_tokens = again.input_tokens,
            cached_tokens = again.cached_tokens, output_tokens = again.output_tokens, cost_estimate = again.cost,
            is_estimated = again.is_estimated
        FROM again WHERE token_logs.id = again.id
    )
    SELECT coalesce(sum(input_tokens + output_tokens - again.tokens), 0),
           coalesce(sum(again.cost), 0) - coalesce(sum(cost_estimate), 0),
           (SELECT first.budget_ids FROM again AS first ORDER BY first.id LIMIT 1)
    FROM again
$$;
COMMENT ON FUNCTION public.parley_pay_again IS 'For parley_charge: replaces calls in the ledger; returns the difference.';
