-- The limit that refuses a call, as the program reads it. `cause`: exhausted, busy (running calls hold the rest), or
-- unpriced (a limit in dollars and a model whose price is unknown).
CREATE FUNCTION public.parley_refusal(
    p_kind text, p_unit text, p_period text, p_used numeric, p_limit numeric, p_resets_at timestamptz, p_cause text DEFAULT NULL
)
RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT jsonb_build_object(
        'kind', p_kind, 'unit', p_unit, 'period', p_period, 'used', p_used, 'limit', p_limit, 'resets_at', p_resets_at,
        'cause', coalesce(p_cause, CASE WHEN p_used >= p_limit THEN 'exhausted' ELSE 'busy' END)
    );
END;
COMMENT ON FUNCTION public.parley_refusal IS 'For the other functions: the limit that refuses a call, as JSON.';
