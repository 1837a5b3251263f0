-- The budgets that a turn's model calls have to keep to, as they stand when the statement begins: [{limit, tokens, used,
-- reserved, renews_at}]. A call is admitted while used + reserved < tokens; `tokens` is NULL where nothing limits. The server's
-- is missing where it has none. For turn_contexts: when a turn ends, its last payment is not yet part of `used`.
CREATE FUNCTION public.parley_turn_limits_v1(p_turn_id bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
    -- In plpgsql, because the plan is kept: every turn asks.
    RETURN (
        SELECT jsonb_agg(jsonb_build_object(
            'limit', standing.what, 'tokens', standing.budget, 'used', standing.used, 'reserved', standing.reserved,
            'renews_at', standing.resets_at
        ))
        FROM (
            SELECT 'person' AS what, own.* FROM public.turns JOIN public.users ON users.id = turns.user_id
            CROSS JOIN LATERAL public.parley_budget_v1(
                token_budget_monthly, budget_from_roles, tokens_used_this_month, tokens_reserved, budget_reset_at
            ) AS own
            WHERE turns.id = p_turn_id
            UNION ALL
            SELECT 'server', common.* FROM public.turns JOIN public.conversations ON conversations.id = turns.conversation_id
            JOIN public.servers USING (platform, platform_server_id)
            CROSS JOIN LATERAL public.parley_budget_v1(
                token_budget_monthly, NULL, tokens_used_this_month, tokens_reserved, budget_reset_at
            ) AS common
            WHERE turns.id = p_turn_id AND servers.token_budget_monthly IS NOT NULL
        ) AS standing
    );
END
$$;
COMMENT ON FUNCTION public.parley_turn_limits_v1 IS 'The budgets that a turn has to keep to, as they stand now, as JSON.';
