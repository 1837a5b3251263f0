CREATE FUNCTION admin.grant_more(limit_table text, limit_id bigint, until timestamptz, tokens bigint DEFAULT 0, dollars numeric DEFAULT 0)
RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM admin.budgets AS b WHERE b."table" = limit_table AND b.id = limit_id) THEN
        RAISE EXCEPTION 'there is no limit % %', limit_table, limit_id
            USING HINT = 'SELECT "table", id, kind, name FROM admin.budgets shows them.';
    ELSIF until IS NULL OR until <= now() THEN
        RAISE EXCEPTION 'a grant ends in the future';
    ELSIF tokens <= 0 AND dollars <= 0 THEN
        RAISE EXCEPTION 'a grant has tokens => or dollars => above 0';
    END IF;
    INSERT INTO public.budget_grants (limit_user_id, limit_server_id, limit_budget_id, status, tokens, cost, ends_at, decided_at)
    SELECT CASE limit_table WHEN 'users' THEN limit_id END, CASE limit_table WHEN 'servers' THEN limit_id END,
           CASE limit_table WHEN 'budgets' THEN limit_id END, 'granted', tokens, dollars, until, now();
    RETURN format(
        '%s more until %s',
        concat_ws(' and ', CASE WHEN tokens > 0 THEN tokens || ' tokens' END,
                  CASE WHEN dollars > 0 THEN trim_scale(dollars) || ' dollars' END),
        to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"')
    );
END
$$;
COMMENT ON FUNCTION admin.grant_more IS
    'More on top of a limit until a date: admin.grant_more(''users'', 17, now() + interval ''7 days'', tokens => 20000), ids from admin.budgets.';
