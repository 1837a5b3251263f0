-- The rules of money, for all that pay or reserve, whether for a turn, a summary, an embedding or a dry run: writes model calls
-- to the ledger, gives back what the payer holds, adds what was spent, and reserves for the next call if every limit admits it
-- (parley_refusing_limit): used + reserved < limit. A reservation is an upper estimate, so the overrun of each limit is one call
-- at most.
--
-- p_calls: [{reservation_id, purpose, model, input_tokens, cached_tokens, output_tokens, cost, is_estimated}], NULL when
-- nothing is paid: such a payer holds nothing yet. `is_estimated` may be missing, which means false. `reservation_id` is
-- the reservation that the call was admitted with; the ledger has one row for it. A call that is paid again, because the
-- acknowledgement of a commit was lost or its reservation has expired meanwhile, replaces its row and costs the difference
-- (parley_pay_again). An unknown `cost` adds nothing to what limits in dollars have used.
-- p_reserve, p_cost: upper estimates of the next call in tokens and dollars. p_reserve is NULL when no call follows; then
-- `admitted` is false and nothing is held. p_cost is NULL when a price is unknown; what is no price counts as unknown.
--
-- Returns whether the next call is admitted, with `refusal` which limit refuses it, and with `released` the tokens that were
-- given back (NULL: it held none). `admitted` is NULL for a turn whose user has been deleted: nothing is held for it, and what
-- it spends counts for the limits that others share.
--
-- Order of locks, everywhere: the turn or the conversation, the user, the reservations, then the other limits as in
-- parley_lock_limits. Where nothing limits them together, people wait for nobody but themselves.
CREATE FUNCTION public.parley_charge(
    p_payer public.parley_payer, p_calls jsonb, p_reserve bigint DEFAULT NULL, p_cost numeric DEFAULT NULL,
    p_seconds double precision DEFAULT 0,
    OUT admitted boolean, OUT refusal jsonb, OUT reservation_id bigint, OUT released bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_limits public.parley_limits;
    v_held_limits public.parley_limits;
    v_spent bigint := 0;
    v_spent_cost numeric := 0;
    v_reserved bigint := 0;
    v_reserved_cost numeric := 0;
    v_paid bigint[];
    v_summary_of bigint := CASE WHEN p_payer.is_summary THEN p_payer.conversation_id END;
    v_is_deleted boolean := false;
BEGIN
    -- More than any model reads, and little enough to be counted for all people together.
    p_reserve := CASE WHEN p_reserve > 1000000000000 THEN 1000000000000 ELSE p_reserve END;
    p_cost := CASE WHEN p_cost BETWEEN 0 AND 999999 THEN round(p_cost, 8) END;
    IF p_payer.turn_id IS NOT NULL OR p_payer.user_id IS NOT NULL THEN
        v_is_deleted := NOT public.parley_lock_user(p_payer.user_id);
    END IF;
    IF v_is_deleted THEN
        p_payer.user_id := NULL;
        p_reserve := NULL;
    END IF;
    v_limits := public.parley_limits_of(p_payer);

    IF p_calls IS NOT NULL THEN
        WITH paid AS (
            INSERT INTO public.token_logs (user_id, conversation_id, turn_id, reservation_id, purpose, model, input_tokens,
                                           cached_tokens, output_tokens, cost_estimate, is_estimated, budget_ids)
            SELECT p_payer.user_id, p_payer.conversation_id, p_payer.turn_id, call.reservation_id, call.purpose, call.model,
                   call.input_tokens, call.cached_tokens, call.output_tokens, call.cost, call.is_estimated, v_limits.budget_ids
            FROM public.parley_read_calls(p_calls) AS call
            ON CONFLICT ON CONSTRAINT uq_token_logs_reservation_id DO NOTHING
            RETURNING token_logs.reservation_id, input_tokens + output_tokens AS tokens, cost_estimate
        )
        SELECT coalesce(sum(tokens), 0), coalesce(sum(cost_estimate), 0), coalesce(array_agg(paid.reservation_id), '{}')
        INTO v_spent, v_spent_cost, v_paid FROM paid;
        DELETE FROM public.budget_reservations AS held
        WHERE held.turn_id = p_payer.turn_id OR held.conversation_id = v_summary_of
        RETURNING tokens, coalesce(cost, 0), held.user_id, held.server_id, held.budget_ids
        INTO released, v_reserved_cost, v_held_limits.user_id, v_held_limits.server_id, v_held_limits.budget_ids;
        v_reserved := -coalesce(released, 0);
        v_reserved_cost := -coalesce(v_reserved_cost, 0);
        IF cardinality(v_paid) < jsonb_array_length(p_calls) THEN
            PERFORM public.parley_pay_again(
                p_calls, v_paid, ARRAY[v_limits.server_id, v_held_limits.server_id],
                v_limits.budget_ids || v_held_limits.budget_ids
            );
        END IF;
    END IF;

    PERFORM public.parley_lock_limits(
        NULL, ARRAY[v_limits.server_id, v_held_limits.server_id], v_limits.budget_ids || v_held_limits.budget_ids
    );
    -- Mostly these are the same limits, and all is added to them at once; a role or a row of `budgets` may be new, or gone.
    IF released IS NOT NULL AND v_held_limits IS DISTINCT FROM v_limits THEN
        PERFORM public.parley_add_to_limits(v_held_limits, 0, 0, v_reserved, v_reserved_cost);
        v_reserved := 0;
        v_reserved_cost := 0;
    END IF;
    admitted := p_reserve IS NOT NULL;
    IF admitted THEN
        v_reserved := v_reserved + p_reserve;
        v_reserved_cost := v_reserved_cost + coalesce(p_cost, 0);
    END IF;
    -- Most calls leave room in all limits: no statement more asks for that.
    IF public.parley_add_to_limits(v_limits, v_spent, v_spent_cost, v_reserved, v_reserved_cost) AND admitted THEN
        refusal := public.parley_refusing_limit(v_limits, p_cost, -p_reserve, -coalesce(p_cost, 0));
        admitted := refusal IS NULL;
        PERFORM public.parley_add_to_limits(v_limits, 0, 0, -p_reserve, -coalesce(p_cost, 0)) WHERE NOT admitted;
    END IF;
    IF admitted THEN
        INSERT INTO public.budget_reservations AS held (user_id, conversation_id, turn_id, server_id, budget_ids, tokens, cost,
                                                expires_at)
        VALUES (p_payer.user_id, v_summary_of, p_payer.turn_id,
                v_limits.server_id, v_limits.budget_ids, p_reserve, p_cost, now() + p_seconds * interval '1 second')
        RETURNING held.id INTO reservation_id;
    END IF;
    IF v_is_deleted THEN
        admitted := NULL;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_charge IS
    'Pays for model calls, gives back what the payer holds, reserves for the next call if all limits admit it.';
