-- Pays for the model calls of a conversation's summary, gives back what the summary holds, and with p_hold holds tokens
-- and p_cost dollars (NULL: the price is unknown) for its next call if every limit admits it: used + reserved < limit.
--
-- The person pays for a direct conversation, the server for a shared one, and the rows of `budgets` that apply pay too. Where
-- there is no limit, the call is only written to the ledger. p_lease: conversations.summary_claimed_until of the worker that
-- asks; another worker's hold is neither taken nor given back. What a summary holds stands in its conversation's row,
-- because no turn runs; the next worker gives back what a dead one has left there.
--
-- Order of locks: the conversation, then as in parley_charge.
CREATE FUNCTION public.parley_charge_summary(
    p_conversation_id bigint, p_lease timestamptz, p_calls jsonb, p_hold bigint, p_cost numeric DEFAULT NULL,
    OUT is_ours boolean, OUT admitted boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_place record;
    v_payer record;
    v_server_id bigint;
    v_limits bigint[];
    v_held bigint := 0;
    v_held_cost numeric := 0;
    v_held_limits bigint[];
    v_spent bigint;
    v_cost numeric;
BEGIN
    SELECT id, platform, platform_server_id, is_direct, CASE WHEN is_direct THEN user_id END AS user_id, persona_id,
           summary_tokens_held, summary_cost_held, summary_budget_ids, summary_claimed_until
    INTO v_place FROM public.conversations WHERE id = p_conversation_id FOR NO KEY UPDATE;
    is_ours := FOUND AND v_place.summary_claimed_until IS NOT DISTINCT FROM p_lease;
    admitted := is_ours AND p_hold IS NOT NULL;
    IF is_ours THEN
        v_held := v_place.summary_tokens_held;
        v_held_cost := v_place.summary_cost_held;
        v_held_limits := v_place.summary_budget_ids;
    END IF;
    v_limits := public.parley_find_budgets(v_place.user_id, v_place.id, v_place.persona_id);

    -- A provider may report nonsense: the ledger holds no negative numbers, and no call gives tokens back.
    WITH logged AS (
        INSERT INTO public.token_logs (user_id, conversation_id, purpose, model, input_tokens, cached_tokens,
                                       output_tokens, cost_estimate, is_estimated, budget_ids)
        SELECT v_place.user_id, v_place.id, call.purpose, call.model, greatest(0, call.input_tokens),
               greatest(0, call.cached_tokens), greatest(0, call.output_tokens), call.cost,
               coalesce(call.is_estimated, false), nullif(v_limits, '{}')
        FROM jsonb_to_recordset(p_calls) AS call
            (purpose text, model text, input_tokens int, cached_tokens int, output_tokens int, cost numeric,
             is_estimated boolean)
        RETURNING input_tokens + output_tokens AS tokens, cost_estimate AS cost
    )
    SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0) INTO v_spent, v_cost FROM logged;

    IF v_place.user_id IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || v_place.user_id, 0));
        SELECT standing.* INTO v_payer
        FROM public.users CROSS JOIN LATERAL public.parley_budget(
            token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
        ) AS standing
        WHERE users.id = v_place.user_id FOR NO KEY UPDATE OF users;
    ELSIF NOT v_place.is_direct AND v_place.platform_server_id IS NOT NULL THEN
        SELECT servers.id, pg_advisory_xact_lock(hashtextextended('server budget ' || servers.id, 0)) INTO v_server_id
        FROM public.servers
        WHERE platform = v_place.platform AND platform_server_id = v_place.platform_server_id;
        SELECT standing.* INTO v_payer
        FROM public.servers CROSS JOIN LATERAL public.parley_budget(
            token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
        ) AS standing
        WHERE servers.id = v_server_id FOR NO KEY UPDATE OF servers;
    ELSE
        SELECT NULL::bigint AS budget, 0::bigint AS used, 0::bigint AS reserved, NULL::timestamptz AS resets_at INTO v_payer;
    END IF;
    v_payer.reserved := greatest(0, v_payer.reserved - v_held);
    IF v_payer.used + v_spent + v_payer.reserved >= v_payer.budget THEN
        admitted := admitted AND v_payer.used + v_spent + v_payer.reserved
            < v_payer.budget + (public.parley_granted(v_place.user_id, v_server_id, NULL)).tokens;
    END IF;
    IF v_limits <> '{}' OR v_held_limits IS NOT NULL THEN
        PERFORM public.parley_lock_budgets(v_limits || v_held_limits);
        PERFORM public.parley_add_to_budgets(v_limits, v_spent, v_cost, 0, 0);
        PERFORM public.parley_add_to_budgets(v_held_limits, 0, 0, -v_held, -v_held_cost) WHERE v_held_limits IS NOT NULL;
        admitted := admitted AND public.parley_refusing_budget(v_limits, p_cost) IS NULL;
        PERFORM public.parley_add_to_budgets(v_limits, 0, 0, p_hold, coalesce(p_cost, 0)) WHERE admitted;
    END IF;
    v_held := CASE WHEN admitted THEN p_hold ELSE 0 END;
    UPDATE public.users SET tokens_used_this_month = v_payer.used + v_spent, budget_reset_at = v_payer.resets_at,
        tokens_reserved = v_payer.reserved + v_held,
        budget_percent_told = CASE WHEN budget_reset_at = v_payer.resets_at THEN budget_percent_told ELSE 0 END
    WHERE users.id = v_place.user_id;
    UPDATE public.servers SET tokens_used_this_month = v_payer.used + v_spent, budget_reset_at = v_payer.resets_at,
        tokens_reserved = v_payer.reserved + v_held,
        budget_percent_told = CASE WHEN budget_reset_at = v_payer.resets_at THEN budget_percent_told ELSE 0 END
    WHERE servers.id = v_server_id;
    IF is_ours THEN
        UPDATE public.conversations SET summary_tokens_held = v_held,
            summary_cost_held = CASE WHEN admitted THEN coalesce(p_cost, 0) ELSE 0 END,
            summary_budget_ids = CASE WHEN admitted THEN nullif(v_limits, '{}') END
        WHERE conversations.id = p_conversation_id;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_charge_summary IS
    'Pays for model calls of a summary, from every limit that applies, and holds tokens for the next one.';
