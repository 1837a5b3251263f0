CREATE FUNCTION admin.set_budget(platform text, account text, tokens bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    PERFORM public.parley_set_budget(v_id, tokens);
    RETURN format('%s may use %s in 30 days', account, coalesce(tokens || ' tokens', 'any number of tokens'));
END
$$;
COMMENT ON FUNCTION admin.set_budget IS 'Sets a person''s budget in tokens for 30 days, NULL = unlimited: admin.set_budget(''discord'', ''ann'', 50000).';
