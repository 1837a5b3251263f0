-- The limit of tokens in a month that a person sets for themselves; NULL lifts it. It holds beside those of admins, of whom none
-- is raised by it: all that apply to a call must admit it.
CREATE FUNCTION public.parley_set_own_limit(p_user_id bigint, p_tokens bigint) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM public.budgets WHERE kind = 'own' AND user_id = p_user_id AND p_tokens IS NULL;
    INSERT INTO public.budgets (kind, user_id, token_limit) SELECT 'own', p_user_id, p_tokens WHERE p_tokens IS NOT NULL
    ON CONFLICT (kind, period, user_id, persona_id, permission_level, platform, platform_server_id, role, platform_channel_id)
    DO UPDATE SET token_limit = excluded.token_limit;
$$;
COMMENT ON FUNCTION public.parley_set_own_limit IS
    'Sets the tokens that a person allows themselves in a month, beside the limits of admins; NULL lifts that.';
