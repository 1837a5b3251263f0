-- Grants or refuses an open request for more of a limit. p_ends_at: until when what is granted counts. Returns no row when
-- somebody has decided already.
CREATE FUNCTION public.parley_decide_request(
    p_id bigint, p_is_granted boolean, p_tokens bigint, p_cost numeric, p_ends_at timestamptz, p_decided_by_id bigint
)
RETURNS TABLE (ends_at timestamptz)
LANGUAGE sql
BEGIN ATOMIC
    UPDATE public.budget_grants SET status = CASE WHEN p_is_granted THEN 'granted' ELSE 'refused' END, tokens = p_tokens,
        cost = p_cost, decided_by_id = p_decided_by_id, decided_at = now(), ends_at = p_ends_at
    WHERE id = p_id AND status = 'asked'
    RETURNING budget_grants.ends_at;
END;
COMMENT ON FUNCTION public.parley_decide_request IS 'Grants or refuses an open request for more of a limit, until a time.';
