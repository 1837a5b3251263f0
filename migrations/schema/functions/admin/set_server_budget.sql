CREATE FUNCTION admin.set_server_budget(platform text, server text, tokens bigint) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF tokens < 0 THEN
        RAISE EXCEPTION 'a budget is 0 (may spend nothing), more, or NULL (unlimited), not %', tokens;
    END IF;
    INSERT INTO public.servers (platform, platform_server_id, token_budget_monthly) VALUES (platform, server, tokens)
    ON CONFLICT ON CONSTRAINT uq_servers_platform_platform_server_id DO UPDATE SET token_budget_monthly = excluded.token_budget_monthly;
    RETURN format('all people of %s together may use %s in 30 days', server, coalesce(tokens || ' tokens', 'any number of tokens'));
END
$$;
COMMENT ON FUNCTION admin.set_server_budget IS 'Sets what all people of a server may use together in 30 days, NULL = unlimited.';
