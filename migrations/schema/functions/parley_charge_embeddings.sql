-- Writes the tokens of an embedding call to the ledger, and adds them to what its persons, their servers and the rows of
-- `budgets` that apply have used: one call embeds texts of many persons. Nothing is reserved before and none is refused: the
-- texts are stored already. A price in `model_prices` comes before p_costs.
--
-- p_user_ids, p_conversation_ids, p_tokens, p_costs: one entry for each payer; the conversation names the server.
--
-- All persons' gates are taken before the first server's, and these before those of `budgets`, each kind in the order of ids,
-- as parley_charge does for one.
-- What a gate protects is read by a statement after it.
CREATE FUNCTION public.parley_charge_embeddings(
    p_model text, p_user_ids bigint[], p_conversation_ids bigint[], p_tokens integer[], p_costs double precision[]
)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_price numeric := (SELECT input_per_million FROM public.model_prices WHERE model = p_model);
    v_limits bigint[];
    v_tokens bigint[];
    v_costs numeric[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || payer.id, 0))
    FROM (SELECT DISTINCT id FROM unnest(p_user_ids) AS given (id) ORDER BY id) AS payer;
    WITH logged AS (
        INSERT INTO public.token_logs (user_id, conversation_id, purpose, model, input_tokens, cost_estimate, budget_ids)
        SELECT g.user_id, g.conversation_id, 'embedding', p_model, g.tokens,
               coalesce(g.tokens * v_price / 1000000, g.cost::numeric),
               nullif(public.parley_find_budgets(g.user_id, g.conversation_id, conversations.persona_id), '{}')
        FROM unnest(p_user_ids, p_conversation_ids, p_tokens, p_costs) AS g (user_id, conversation_id, tokens, cost)
        JOIN public.users ON users.id = g.user_id
        LEFT JOIN public.conversations ON conversations.id = g.conversation_id
        RETURNING budget_ids, input_tokens, cost_estimate
    ), summed AS (
        SELECT one.id, sum(logged.input_tokens) AS tokens, coalesce(sum(logged.cost_estimate), 0) AS cost
        FROM logged CROSS JOIN LATERAL unnest(logged.budget_ids) AS one (id) GROUP BY one.id
    )
    SELECT array_agg(id ORDER BY id), array_agg(tokens ORDER BY id), array_agg(cost ORDER BY id)
    INTO v_limits, v_tokens, v_costs FROM summed;
    UPDATE public.users SET tokens_used_this_month = standing.used + spent.tokens, budget_reset_at = standing.resets_at,
        budget_percent_told = CASE WHEN payer.budget_reset_at = standing.resets_at THEN payer.budget_percent_told ELSE 0 END
    FROM (
        SELECT g.user_id, sum(g.tokens) AS tokens FROM unnest(p_user_ids, p_tokens) AS g (user_id, tokens)
        GROUP BY g.user_id
    ) AS spent
    JOIN public.users AS payer ON payer.id = spent.user_id
    CROSS JOIN LATERAL public.parley_budget(
        payer.token_budget_monthly, payer.budget_from_roles, payer.tokens_used_this_month, payer.tokens_reserved,
        payer.budget_reset_at
    ) AS standing
    WHERE users.id = payer.id;

    PERFORM pg_advisory_xact_lock(hashtextextended('server budget ' || payer.id, 0))
    FROM (
        SELECT DISTINCT servers.id FROM public.conversations JOIN public.servers USING (platform, platform_server_id)
        WHERE conversations.id = ANY (p_conversation_ids) ORDER BY servers.id
    ) AS payer;
    UPDATE public.servers SET tokens_used_this_month = standing.used + spent.tokens, budget_reset_at = standing.resets_at,
        budget_percent_told = CASE WHEN payer.budget_reset_at = standing.resets_at THEN payer.budget_percent_told ELSE 0 END
    FROM (
        SELECT paying.id, sum(g.tokens) AS tokens
        FROM unnest(p_conversation_ids, p_tokens) AS g (conversation_id, tokens)
        JOIN public.conversations ON conversations.id = g.conversation_id
        JOIN public.servers AS paying USING (platform, platform_server_id)
        GROUP BY paying.id
    ) AS spent
    JOIN public.servers AS payer ON payer.id = spent.id
    CROSS JOIN LATERAL public.parley_budget(
        payer.token_budget_monthly, NULL, payer.tokens_used_this_month, payer.tokens_reserved, payer.budget_reset_at
    ) AS standing
    WHERE servers.id = payer.id;

    IF v_limits IS NOT NULL THEN
        PERFORM public.parley_lock_budgets(v_limits);
        FOR v_number IN 1 .. cardinality(v_limits) LOOP
            PERFORM public.parley_add_to_budgets(
                ARRAY[v_limits[v_number]], v_tokens[v_number], v_costs[v_number], 0, 0
            );
        END LOOP;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_charge_embeddings IS
    'Writes the tokens of an embedding call to the ledger and charges them to every limit that applies.';
