-- Writes the tokens of an embedding call to the ledger, and adds them to what its persons and their servers have used: one
-- call embeds texts of many persons. Nothing is reserved before and none is refused: the texts are stored already.
--
-- p_user_ids, p_conversation_ids, p_tokens, p_costs: one entry for each payer; the conversation names the server.
--
-- All persons' gates are taken before the first server's, each kind in the order of ids, as parley_charge_v1 does for one.
-- What a gate protects is read by a statement after it.
CREATE FUNCTION public.parley_charge_embeddings_v1(
    p_model text, p_user_ids bigint[], p_conversation_ids bigint[], p_tokens integer[], p_costs double precision[]
)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || payer.id, 0))
    FROM (SELECT DISTINCT id FROM unnest(p_user_ids) AS given (id) ORDER BY id) AS payer;
    INSERT INTO public.token_logs (user_id, conversation_id, purpose, model, input_tokens, cost_estimate)
    SELECT g.user_id, g.conversation_id, 'embedding', p_model, g.tokens, g.cost
    FROM unnest(p_user_ids, p_conversation_ids, p_tokens, p_costs) AS g (user_id, conversation_id, tokens, cost)
    JOIN public.users ON users.id = g.user_id;
    UPDATE public.users SET tokens_used_this_month = standing.used + spent.tokens, budget_reset_at = standing.resets_at
    FROM (
        SELECT g.user_id, sum(g.tokens) AS tokens FROM unnest(p_user_ids, p_tokens) AS g (user_id, tokens)
        GROUP BY g.user_id
    ) AS spent
    JOIN public.users AS payer ON payer.id = spent.user_id
    CROSS JOIN LATERAL public.parley_budget_v1(
        payer.token_budget_monthly, payer.budget_from_roles, payer.tokens_used_this_month, payer.tokens_reserved,
        payer.budget_reset_at
    ) AS standing
    WHERE users.id = payer.id;

    PERFORM pg_advisory_xact_lock(hashtextextended('server budget ' || payer.id, 0))
    FROM (
        SELECT DISTINCT servers.id FROM public.conversations JOIN public.servers USING (platform, platform_server_id)
        WHERE conversations.id = ANY (p_conversation_ids) ORDER BY servers.id
    ) AS payer;
    UPDATE public.servers SET tokens_used_this_month = standing.used + spent.tokens, budget_reset_at = standing.resets_at
    FROM (
        SELECT paying.id, sum(g.tokens) AS tokens
        FROM unnest(p_conversation_ids, p_tokens) AS g (conversation_id, tokens)
        JOIN public.conversations ON conversations.id = g.conversation_id
        JOIN public.servers AS paying USING (platform, platform_server_id)
        GROUP BY paying.id
    ) AS spent
    JOIN public.servers AS payer ON payer.id = spent.id
    CROSS JOIN LATERAL public.parley_budget_v1(
        payer.token_budget_monthly, NULL, payer.tokens_used_this_month, payer.tokens_reserved, payer.budget_reset_at
    ) AS standing
    WHERE servers.id = payer.id;
END
$$;
COMMENT ON FUNCTION public.parley_charge_embeddings_v1 IS
    'Writes the tokens of an embedding call to the ledger and charges them to its persons and their servers.';
