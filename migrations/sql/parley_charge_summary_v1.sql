-- Pays for the model calls of a conversation's summary, gives back what the summary holds, and with p_hold holds tokens
-- for its next call if the budget admits it: used + reserved < limit.
--
-- The person pays for a direct conversation, the server for a shared one; where there is neither, or no limit, the
-- call is only written to the ledger. p_lease: conversations.summary_claimed_until of the worker that asks; another
-- worker's hold is neither taken nor given back. What a summary holds stands in its conversation's row, because no turn
-- runs; the next worker gives back what a dead one has left there.
--
-- Order of locks: the conversation, then as in parley_charge: the user's gate and row, or the server's gate and row.
CREATE FUNCTION public.parley_charge_summary_v1(
    p_conversation_id bigint, p_lease timestamptz, p_calls jsonb, p_hold bigint,
    OUT is_ours boolean, OUT admitted boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_place record;
    v_held bigint;
    v_spent bigint;
    v_server_id bigint;
    v_used bigint;
    v_budget bigint;
    v_reserved bigint;
    v_resets_at timestamptz;
BEGIN
    SELECT id, platform, platform_server_id, is_direct, CASE WHEN is_direct THEN user_id END AS user_id,
           summary_tokens_held, summary_claimed_until
    INTO v_place FROM public.conversations WHERE id = p_conversation_id FOR NO KEY UPDATE;
    is_ours := FOUND AND v_place.summary_claimed_until IS NOT DISTINCT FROM p_lease;
    admitted := is_ours AND p_hold IS NOT NULL;
    v_held := CASE WHEN is_ours THEN v_place.summary_tokens_held ELSE 0 END;

    -- A provider may report nonsense: the ledger holds no negative numbers, and no call gives tokens back.
    INSERT INTO public.token_logs (user_id, conversation_id, purpose, model, input_tokens, cached_tokens,
                                   output_tokens, cost_estimate, is_estimated)
    SELECT v_place.user_id, v_place.id, call.purpose, call.model, greatest(0, call.input_tokens),
           greatest(0, call.cached_tokens), greatest(0, call.output_tokens), call.cost,
           coalesce(call.is_estimated, false)
    FROM jsonb_to_recordset(p_calls) AS call
        (purpose text, model text, input_tokens int, cached_tokens int, output_tokens int, cost numeric,
         is_estimated boolean);
    SELECT coalesce(sum(greatest(0, call.input_tokens + call.output_tokens)), 0) INTO v_spent
    FROM jsonb_to_recordset(p_calls) AS call (input_tokens int, output_tokens int);

    IF v_place.user_id IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || v_place.user_id, 0));
        SELECT standing.* INTO v_budget, v_used, v_reserved, v_resets_at
        FROM public.users CROSS JOIN LATERAL public.parley_budget_v1(
            token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
        ) AS standing
        WHERE users.id = v_place.user_id FOR NO KEY UPDATE OF users;
        v_reserved := greatest(0, v_reserved - v_held);
        admitted := admitted AND (v_budget IS NULL OR v_used + v_spent + v_reserved < v_budget);
        UPDATE public.users SET tokens_used_this_month = v_used + v_spent, budget_reset_at = v_resets_at,
            tokens_reserved = v_reserved + CASE WHEN admitted THEN p_hold ELSE 0 END
        WHERE users.id = v_place.user_id;
    ELSIF NOT v_place.is_direct AND v_place.platform_server_id IS NOT NULL THEN
        SELECT servers.id, pg_advisory_xact_lock(hashtextextended('server budget ' || servers.id, 0)) INTO v_server_id
        FROM public.servers
        WHERE platform = v_place.platform AND platform_server_id = v_place.platform_server_id;
        SELECT standing.* INTO v_budget, v_used, v_reserved, v_resets_at
        FROM public.servers CROSS JOIN LATERAL public.parley_budget_v1(
            token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
        ) AS standing
        WHERE servers.id = v_server_id FOR NO KEY UPDATE OF servers;
        IF FOUND THEN
            v_reserved := greatest(0, v_reserved - v_held);
            admitted := admitted AND (v_budget IS NULL OR v_used + v_spent + v_reserved < v_budget);
            UPDATE public.servers SET tokens_used_this_month = v_used + v_spent, budget_reset_at = v_resets_at,
                tokens_reserved = v_reserved + CASE WHEN admitted THEN p_hold ELSE 0 END
            WHERE servers.id = v_server_id;
        END IF;
    END IF;
    IF is_ours THEN
        UPDATE public.conversations SET summary_tokens_held = CASE WHEN admitted THEN p_hold ELSE 0 END
        WHERE conversations.id = p_conversation_id;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_charge_summary_v1 IS
    'Pays for model calls of a summary, from the person''s budget or the server''s, and holds tokens for the next one.';
