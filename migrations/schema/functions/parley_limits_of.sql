-- The limits that a payer has to keep to: the person's, the server's, and the rows of `budgets` that apply.
CREATE FUNCTION public.parley_limits_of(p_payer public.parley_payer) RETURNS public.parley_limits
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_limits public.parley_limits;
BEGIN
    v_limits.user_id := p_payer.user_id;
    SELECT (
        SELECT servers.id FROM public.conversations JOIN public.servers USING (platform, platform_server_id)
        WHERE conversations.id = p_payer.conversation_id
    -- Most installations have no budgets.
    ), CASE WHEN EXISTS (SELECT FROM public.budgets) THEN nullif(
        public.parley_find_budgets(p_payer.user_id, p_payer.conversation_id, p_payer.persona_id), '{}'
    ) END INTO v_limits.server_id, v_limits.budget_ids;
    RETURN v_limits;
END
$$;
COMMENT ON FUNCTION public.parley_limits_of IS 'The limits that a payer has to keep to.';
