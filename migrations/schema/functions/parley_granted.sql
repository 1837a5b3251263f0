-- What was granted on top of one limit and still counts: that of a person, of a server, or of a row of `budgets`.
CREATE FUNCTION public.parley_granted(
    p_user_id bigint, p_server_id bigint, p_budget_id bigint, OUT tokens bigint, OUT cost numeric
)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(sum(g.tokens), 0)::bigint, coalesce(sum(g.cost), 0)
    FROM public.budget_grants AS g
    WHERE g.status = 'granted' AND g.ends_at > now()
      AND (g.limit_user_id = p_user_id OR g.limit_server_id = p_server_id OR g.limit_budget_id = p_budget_id);
END;
COMMENT ON FUNCTION public.parley_granted IS
    'Tokens and dollars that were granted on top of a limit (of a person, a server or a row of budgets) until a date to come.';
-- Views of admin call it with the rights of whoever looks.
GRANT EXECUTE ON FUNCTION public.parley_granted TO parley_readonly;
