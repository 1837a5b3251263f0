-- The rules of money, for all functions that pay or reserve: writes model calls to the ledger, gives back what the turn
-- holds, adds what was spent, and reserves tokens for the next call if both budgets, the person's and the server's,
-- admit it: used + reserved < limit. A reservation is an upper estimate, so the overrun is one call at most.
--
-- p_calls: [{reservation_id, purpose, model, input_tokens, cached_tokens, output_tokens, cost, is_estimated}], NULL when
-- nothing is paid: such a turn holds nothing yet. `is_estimated` may be missing, which means false. `reservation_id` is
-- the reservation that the call was admitted with; the ledger has one row for it. A call that is paid again, because the
-- acknowledgement of a commit was lost or its reservation has expired meanwhile, replaces its row and costs the difference.
-- p_reserve: NULL when no call follows; then `admitted` is false and nothing is held.
--
-- Returns NULLs when the user has been deleted. Otherwise whether the next call is admitted, and the budget that
-- decides: the person's, or with `by_server` the server's, which alone refuses. `used` is from before this payment.
--
-- Order of locks, everywhere: the turn, the user's gate, the user, the reservations, the server's gate, the server. The
-- gates are advisory locks that are taken before the row: whoever waited for the row itself would block the
-- transaction that holds it, when that one changes the row a second time. NO KEY UPDATE, because rows of new turns
-- refer to the user. What a gate protects is read by a statement after it: it sees what the last holder has written.
CREATE FUNCTION public.parley_charge_v2(
    p_turn_id bigint, p_user_id bigint, p_conversation_id bigint, p_calls jsonb, p_reserve bigint,
    p_seconds double precision,
    OUT admitted boolean, OUT by_server boolean, OUT used bigint, OUT budget bigint, OUT resets_at timestamptz,
    OUT reservation_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_spent bigint := 0;
    v_reserved bigint;
    v_held bigint;
    v_held_server_id bigint;
    v_server_id bigint;
    v_server record;
    v_server_reserved bigint;
    v_server_admits boolean := true;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || p_user_id, 0));
    SELECT standing.* INTO budget, used, v_reserved, resets_at
    FROM public.users CROSS JOIN LATERAL public.parley_budget_v1(
        token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
    ) AS standing
    WHERE users.id = p_user_id FOR NO KEY UPDATE OF users;

    IF p_calls IS NOT NULL THEN
        -- A provider may report nonsense: the ledger holds no negative numbers, and no call gives tokens back.
        SELECT coalesce(sum(greatest(0, call.input_tokens) + greatest(0, call.output_tokens)), 0)
               - coalesce(sum(known.input_tokens + known.output_tokens), 0)
        INTO v_spent
        FROM jsonb_to_recordset(p_calls) AS call (reservation_id bigint, input_tokens int, output_tokens int)
        LEFT JOIN public.token_logs AS known ON known.reservation_id = call.reservation_id;
        INSERT INTO public.token_logs (user_id, conversation_id, turn_id, reservation_id, purpose, model,
                                       input_tokens, cached_tokens, output_tokens, cost_estimate, is_estimated)
        SELECT p_user_id, p_conversation_id, p_turn_id, call.reservation_id, call.purpose, call.model,
               greatest(0, call.input_tokens), greatest(0, call.cached_tokens), greatest(0, call.output_tokens),
               call.cost, coalesce(call.is_estimated, false)
        FROM jsonb_to_recordset(p_calls) AS call
            (reservation_id bigint, purpose text, model text, input_tokens int, cached_tokens int, output_tokens int,
             cost numeric, is_estimated boolean)
        ON CONFLICT ON CONSTRAINT uq_token_logs_reservation_id DO UPDATE SET
            model = excluded.model, input_tokens = excluded.input_tokens, cached_tokens = excluded.cached_tokens,
            output_tokens = excluded.output_tokens, cost_estimate = excluded.cost_estimate,
            is_estimated = excluded.is_estimated;
    END IF;
    IF resets_at IS NULL THEN
        RETURN;
    END IF;

    IF p_calls IS NOT NULL THEN
        DELETE FROM public.budget_reservations WHERE turn_id = p_turn_id
        RETURNING tokens, server_id INTO v_held, v_held_server_id;
        v_reserved := greatest(0, v_reserved - coalesce(v_held, 0));
    END IF;

    -- One statement finds the server and takes its gate; the lock has no value to keep.
    SELECT servers.id, pg_advisory_xact_lock(hashtextextended('server budget ' || servers.id, 0)) INTO v_server_id
    FROM public.conversations JOIN public.servers USING (platform, platform_server_id)
    WHERE conversations.id = p_conversation_id;
    IF v_server_id IS NOT NULL THEN
        SELECT servers.id, standing.* INTO v_server
        FROM public.servers CROSS JOIN LATERAL public.parley_budget_v1(
            token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
        ) AS standing
        WHERE servers.id = v_server_id FOR NO KEY UPDATE OF servers;
        -- NULL when the server has been deleted since.
        v_server_id := v_server.id;
        v_server_reserved := greatest(
            0, v_server.reserved - CASE WHEN v_held_server_id = v_server_id THEN v_held ELSE 0 END
        );
        v_server_admits := v_server.budget IS NULL OR v_server.used + v_spent + v_server_reserved < v_server.budget;
    END IF;

    admitted := p_reserve IS NOT NULL AND (budget IS NULL OR used + v_spent + v_reserved < budget);
    by_server := admitted AND NOT v_server_admits;
    admitted := admitted AND v_server_admits;
    IF admitted THEN
        INSERT INTO public.budget_reservations (user_id, turn_id, server_id, tokens, expires_at)
        VALUES (p_user_id, p_turn_id, v_server_id, p_reserve, now() + p_seconds * interval '1 second')
        RETURNING id INTO reservation_id;
        v_reserved := v_reserved + p_reserve;
        v_server_reserved := v_server_reserved + p_reserve;
    END IF;
    UPDATE public.users SET tokens_used_this_month = greatest(0, used + v_spent), tokens_reserved = v_reserved,
        budget_reset_at = resets_at
    WHERE users.id = p_user_id;
    IF v_server_id IS NOT NULL THEN
        UPDATE public.servers SET tokens_used_this_month = greatest(0, v_server.used + v_spent),
            tokens_reserved = v_server_reserved, budget_reset_at = v_server.resets_at
        WHERE servers.id = v_server_id;
    END IF;
    IF by_server THEN
        used := v_server.used;
        budget := v_server.budget;
        resets_at := v_server.resets_at;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_charge_v2 IS
    'For the other functions: pays for model calls, gives back what the turn holds, reserves tokens for the next call.';
