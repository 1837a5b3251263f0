CREATE FUNCTION admin.set_budget(platform text, account text, tokens bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    IF tokens < 0 THEN
        RAISE EXCEPTION 'a budget is 0 (may spend nothing), more, or NULL (unlimited), not %', tokens;
    END IF;
    UPDATE public.users SET token_budget_monthly = tokens WHERE id = v_id;
    RETURN format('%s may use %s in 30 days', account, coalesce(tokens || ' tokens', 'any number of tokens'));
END
$$;
COMMENT ON FUNCTION admin.set_budget IS 'Sets a person''s budget in tokens for 30 days, NULL = unlimited: admin.set_budget(''discord'', ''ann'', 50000).';
