-- Lists a person's or a server's monthly tokens in `budget_notices` when they reach 50, 80 or 100 percent, what was granted on
-- top of them included. Returns the percentage that is told now.
CREATE FUNCTION public.parley_note_budget(
    p_user_id bigint, p_server_id bigint, p_told int, p_used bigint, p_limit bigint
)
RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_percent int := public.parley_threshold(
        p_used, p_limit + (public.parley_granted(p_user_id, p_server_id, NULL)).tokens
    );
BEGIN
    IF v_percent <= p_told THEN
        RETURN p_told;
    END IF;
    INSERT INTO public.budget_notices (limit_user_id, limit_server_id, percent) VALUES (p_user_id, p_server_id, v_percent);
    RETURN v_percent;
END
$$;
COMMENT ON FUNCTION public.parley_note_budget IS
    'For the other functions: notes that the monthly tokens of a person or a server have reached a threshold.';
