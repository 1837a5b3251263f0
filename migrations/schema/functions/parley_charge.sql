-- The rules of money, for all functions that pay or reserve: writes model calls to the ledger, gives back what the turn
-- holds, adds what was spent, and reserves for the next call if every limit admits it: the person's, the server's, and the
-- rows of `budgets` that apply (parley_find_budgets): used + reserved < limit. A reservation is an upper estimate, so the
-- overrun of each limit is one call at most.
--
-- p_calls: [{reservation_id, purpose, model, input_tokens, cached_tokens, output_tokens, cost, is_estimated}], NULL when
-- nothing is paid: such a turn holds nothing yet. `is_estimated` may be missing, which means false. `reservation_id` is
-- the reservation that the call was admitted with; the ledger has one row for it. A call that is paid again, because the
-- acknowledgement of a commit was lost or its reservation has expired meanwhile, replaces its row and costs the difference.
-- An unknown `cost` adds nothing to what limits in dollars have used.
-- p_reserve, p_cost: upper estimates of the next call in tokens and dollars. p_reserve is NULL when no call follows; then
-- `admitted` is false and nothing is held. p_cost is NULL when a price is unknown.
--
-- Returns NULLs when the user has been deleted. Otherwise whether the next call is admitted, and with `refusal` which
-- limit refuses it (parley_refusal): the person's before the server's, and both before rows of `budgets`.
--
-- Order of locks, everywhere: the turn, the user's gate, the user, the reservations, the server's gate, the server, the gates
-- of `budgets` by id, their rows by id. The gates are advisory locks that are taken before the row: whoever waited for the
-- row itself would block the transaction that holds it, when that one changes the row a second time. NO KEY UPDATE, because
-- rows of new turns refer to the user. What a gate protects is read by a statement after it: it sees what the last holder
-- has written. Where nothing limits them together, people wait for nobody but themselves.
CREATE FUNCTION public.parley_charge(
    p_turn_id bigint, p_user_id bigint, p_conversation_id bigint, p_persona_id bigint, p_calls jsonb,
    p_reserve bigint, p_cost numeric, p_seconds double precision,
    OUT admitted boolean, OUT refusal jsonb, OUT reservation_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_user record;
    v_server record;
    v_server_id bigint;
    v_spent bigint := 0;
    v_spent_cost numeric := 0;
    v_held_tokens bigint;
    v_held_cost numeric;
    v_held_server_id bigint;
    v_held_limits bigint[];
    v_limit bigint;
    v_known_id bigint;
    v_limits bigint[] := '{}';
    v_charged bigint[];
BEGIN
    -- Most installations have none.
    IF EXISTS (SELECT FROM public.budgets) THEN
        v_limits := public.parley_find_budgets(p_user_id, p_conversation_id, p_persona_id);
    END IF;
    v_charged := v_limits;
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || p_user_id, 0));
    SELECT standing.*, CASE WHEN budget_reset_at = standing.resets_at THEN budget_percent_told ELSE 0 END AS told INTO v_user
    FROM public.users CROSS JOIN LATERAL public.parley_budget(
        token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
    ) AS standing
    WHERE users.id = p_user_id FOR NO KEY UPDATE OF users;

    IF p_calls IS NOT NULL THEN
        -- A provider may report nonsense: the ledger holds no negative numbers, and no call gives tokens back.
        SELECT coalesce(sum(greatest(0, call.input_tokens) + greatest(0, call.output_tokens)), 0)
               - coalesce(sum(known.input_tokens + known.output_tokens), 0),
               coalesce(sum(call.cost), 0) - coalesce(sum(known.cost_estimate), 0), min(known.id)
        INTO v_spent, v_spent_cost, v_known_id
        FROM jsonb_to_recordset(p_calls) AS call
            (reservation_id bigint, input_tokens int, output_tokens int, cost numeric(14, 8))
        LEFT JOIN public.token_logs AS known ON known.reservation_id = call.reservation_id;
        IF v_known_id IS NOT NULL THEN
            SELECT coalesce(budget_ids, '{}') INTO v_charged FROM public.token_logs WHERE id = v_known_id;
        END IF;
        INSERT INTO public.token_logs (user_id, conversation_id, turn_id, reservation_id, purpose, model, input_tokens,
                                       cached_tokens, output_tokens, cost_estimate, is_estimated, budget_ids)
        SELECT p_user_id, p_conversation_id, p_turn_id, call.reservation_id, call.purpose, call.model,
               greatest(0, call.input_tokens), greatest(0, call.cached_tokens), greatest(0, call.output_tokens),
               call.cost, coalesce(call.is_estimated, false),
               -- Of somebody who has been deleted nothing is counted.
               CASE WHEN v_user.resets_at IS NOT NULL THEN nullif(v_limits, '{}') END
        FROM jsonb_to_recordset(p_calls) AS call
            (reservation_id bigint, purpose text, model text, input_tokens int, cached_tokens int, output_tokens int,
             cost numeric, is_estimated boolean)
        ON CONFLICT ON CONSTRAINT uq_token_logs_reservation_id DO UPDATE SET
            model = excluded.model, input_tokens = excluded.input_tokens, cached_tokens = excluded.cached_tokens,
            output_tokens = excluded.output_tokens, cost_estimate = excluded.cost_estimate,
            is_estimated = excluded.is_estimated;
    END IF;
    IF v_user.resets_at IS NULL THEN
        RETURN;
    END IF;

    IF p_calls IS NOT NULL THEN
        DELETE FROM public.budget_reservations WHERE turn_id = p_turn_id
        RETURNING tokens, cost, server_id, budget_ids INTO v_held_tokens, v_held_cost, v_held_server_id, v_held_limits;
        v_user.reserved := greatest(0, v_user.reserved - coalesce(v_held_tokens, 0));
    END IF;
    IF p_reserve IS NOT NULL AND v_user.used + v_spent + v_user.reserved >= v_user.budget THEN
        v_limit := v_user.budget + (public.parley_granted(p_user_id, NULL, NULL)).tokens;
        IF v_user.used + v_spent + v_user.reserved >= v_limit THEN
            refusal := public.parley_refusal(
                'person', 'tokens', '30 days', v_user.used + v_spent, v_limit, v_user.resets_at
            );
        END IF;
    END IF;

    -- One statement finds the server and takes its gate; the lock has no value to keep.
    SELECT servers.id, pg_advisory_xact_lock(hashtextextended('server budget ' || servers.id, 0)) INTO v_server_id
    FROM public.conversations JOIN public.servers USING (platform, platform_server_id)
    WHERE conversations.id = p_conversation_id;
    IF v_server_id IS NOT NULL THEN
        SELECT servers.id, standing.*,
               CASE WHEN budget_reset_at = standing.resets_at THEN budget_percent_told ELSE 0 END AS told INTO v_server
        FROM public.servers CROSS JOIN LATERAL public.parley_budget(
            token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
        ) AS standing
        WHERE servers.id = v_server_id FOR NO KEY UPDATE OF servers;
        -- NULL when the server has been deleted since.
        v_server_id := v_server.id;
        IF v_held_server_id = v_server_id THEN
            v_server.reserved := greatest(0, v_server.reserved - v_held_tokens);
        END IF;
        IF p_reserve IS NOT NULL AND v_server.used + v_spent + v_server.reserved >= v_server.budget THEN
            v_limit := v_server.budget + (public.parley_granted(NULL, v_server_id, NULL)).tokens;
            IF v_server.used + v_spent + v_server.reserved >= v_limit THEN
                refusal := coalesce(refusal, public.parley_refusal(
                    'server', 'tokens', '30 days', v_server.used + v_spent, v_limit, v_server.resets_at
                ));
            END IF;
        END IF;
    END IF;

    IF v_limits <> '{}' OR v_charged <> '{}' OR v_held_limits IS NOT NULL THEN
        PERFORM public.parley_lock_budgets(v_limits || v_charged || v_held_limits);
        PERFORM public.parley_add_to_budgets(v_charged, v_spent, v_spent_cost, 0, 0) WHERE p_calls IS NOT NULL;
        PERFORM public.parley_add_to_budgets(v_held_limits, 0, 0, -v_held_tokens, -coalesce(v_held_cost, 0))
        WHERE v_held_limits IS NOT NULL;
    END IF;
    IF p_reserve IS NOT NULL AND refusal IS NULL AND v_limits <> '{}' THEN
        refusal := public.parley_refusing_budget(v_limits, p_cost);
    END IF;

    admitted := p_reserve IS NOT NULL AND refusal IS NULL;
    IF admitted THEN
        INSERT INTO public.budget_reservations (user_id, turn_id, server_id, budget_ids, tokens, cost, expires_at)
        VALUES (p_user_id, p_turn_id, v_server_id, nullif(v_limits, '{}'), p_reserve, p_cost,
                now() + p_seconds * interval '1 second')
        RETURNING id INTO reservation_id;
        v_user.reserved := v_user.reserved + p_reserve;
        PERFORM public.parley_add_to_budgets(v_limits, 0, 0, p_reserve, coalesce(p_cost, 0)) WHERE v_limits <> '{}';
    END IF;
    IF v_spent > 0 AND public.parley_threshold(v_user.used + v_spent, v_user.budget) > v_user.told THEN
        v_user.told := public.parley_note_budget(p_user_id, NULL, v_user.told, v_user.used + v_spent, v_user.budget);
    END IF;
    UPDATE public.users SET tokens_used_this_month = greatest(0, v_user.used + v_spent), tokens_reserved = v_user.reserved,
        budget_reset_at = v_user.resets_at, budget_percent_told = v_user.told
    WHERE users.id = p_user_id;
    IF v_server_id IS NOT NULL THEN
        IF v_spent > 0 AND public.parley_threshold(v_server.used + v_spent, v_server.budget) > v_server.told THEN
            v_server.told := public.parley_note_budget(
                NULL, v_server_id, v_server.told, v_server.used + v_spent, v_server.budget
            );
        END IF;
        UPDATE public.servers SET tokens_used_this_month = greatest(0, v_server.used + v_spent),
            tokens_reserved = v_server.reserved + CASE WHEN admitted THEN p_reserve ELSE 0 END,
            budget_reset_at = v_server.resets_at, budget_percent_told = v_server.told
        WHERE servers.id = v_server_id;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_charge IS
    'For the other functions: pays for model calls, gives back what the turn holds, reserves for the next call.';
