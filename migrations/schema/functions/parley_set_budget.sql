-- Sets what a person may spend in 30 days.
CREATE FUNCTION public.parley_set_budget(p_user_id bigint, p_tokens bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_tokens < 0 THEN
        RAISE EXCEPTION 'a budget is 0 (may spend nothing), more, or NULL (unlimited), not %', p_tokens;
    END IF;
    UPDATE public.users SET token_budget_monthly = p_tokens WHERE id = p_user_id;
END
$$;
COMMENT ON FUNCTION public.parley_set_budget IS 'Sets a person''s budget in tokens for 30 days, NULL = unlimited.';
