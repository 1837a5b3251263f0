-- Notes that a person asks for more of a limit: `users`, `servers` or `budgets` and the row's id. Returns the request's number.
CREATE FUNCTION public.parley_ask_for_more(p_user_id bigint, p_table text, p_id bigint, p_tokens bigint, p_cost numeric)
RETURNS bigint
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO public.budget_grants (asked_by_id, tokens, cost, limit_user_id, limit_server_id, limit_budget_id)
    VALUES (p_user_id, p_tokens, p_cost, CASE p_table WHEN 'users' THEN p_id END,
            CASE p_table WHEN 'servers' THEN p_id END, CASE p_table WHEN 'budgets' THEN p_id END)
    RETURNING id;
END;
COMMENT ON FUNCTION public.parley_ask_for_more IS 'Notes that a person asks for more of a limit; returns the request''s number.';
