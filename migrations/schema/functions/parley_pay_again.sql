-- For parley_charge: calls that the ledger has already, all but those with these reservations, replace their rows. The limits
-- that were charged then are charged the difference, each if the call belongs to its current period. They are locked here,
-- together with those of p_server_ids and p_budget_ids.
CREATE FUNCTION public.parley_pay_again(p_calls jsonb, p_paid bigint[], p_server_ids bigint[], p_budget_ids bigint[])
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_reservation_ids bigint[] := ARRAY(
        SELECT reservation_id FROM public.parley_read_calls(p_calls)
        WHERE reservation_id <> ALL (array_remove(p_paid, NULL))
    );
    v_again record;
BEGIN
    PERFORM public.parley_lock_limits(
        NULL,
        p_server_ids || ARRAY(
            SELECT servers.id FROM public.token_logs AS known
            JOIN public.conversations ON conversations.id = known.conversation_id
            JOIN public.servers USING (platform, platform_server_id)
            WHERE known.reservation_id = ANY (v_reservation_ids)
        ),
        p_budget_ids || ARRAY(
            SELECT budget_id FROM public.token_logs AS known CROSS JOIN LATERAL unnest(known.budget_ids) AS budget_id
            WHERE known.reservation_id = ANY (v_reservation_ids)
        )
    );
    FOR v_again IN
        SELECT known.id, known.created_at, call.model, call.input_tokens, call.cached_tokens, call.output_tokens, call.cost,
               call.is_estimated, ROW(known.user_id, (
                   SELECT servers.id FROM public.conversations JOIN public.servers USING (platform, platform_server_id)
                   WHERE conversations.id = known.conversation_id
               ), known.budget_ids)::public.parley_limits AS limits,
               call.input_tokens + call.output_tokens - known.input_tokens - known.output_tokens AS tokens,
               coalesce(call.cost, 0) - coalesce(known.cost_estimate, 0) AS difference
        FROM public.parley_read_calls(p_calls) AS call JOIN public.token_logs AS known USING (reservation_id)
        WHERE known.reservation_id = ANY (v_reservation_ids) FOR NO KEY UPDATE OF known
    LOOP
        UPDATE public.token_logs SET model = v_again.model, input_tokens = v_again.input_tokens,
            cached_tokens = v_again.cached_tokens, output_tokens = v_again.output_tokens, cost_estimate = v_again.cost,
            is_estimated = v_again.is_estimated
        WHERE token_logs.id = v_again.id;
        PERFORM public.parley_add_to_limits(
            v_again.limits, v_again.tokens, v_again.difference, 0, 0, v_again.created_at
        );
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_pay_again IS
    'For parley_charge: replaces calls in the ledger, and charges the difference to the limits that were charged for them.';
