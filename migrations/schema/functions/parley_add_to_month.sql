-- For parley_add_to_limits: what a person or a server has used of their tokens, once more were spent at this time, in the period
-- that is current now.
CREATE FUNCTION public.parley_add_to_month(
    p_used bigint, p_percent_told smallint, p_resets_at timestamptz, p_tokens bigint, p_spent_at timestamptz
)
RETURNS TABLE (used bigint, percent_told smallint, resets_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT greatest(0, standing.used + CASE
               WHEN p_spent_at >= standing.starts_at OR standing.starts_at > clock_timestamp() THEN p_tokens ELSE 0 END),
           CASE WHEN p_resets_at > now() THEN p_percent_told ELSE 0::smallint END, standing.resets_at
    FROM (
        SELECT used, resets_at, resets_at - interval '30 days' AS starts_at
        FROM public.parley_budget(NULL, NULL, p_used, 0, p_resets_at)
    ) AS standing
$$;
COMMENT ON FUNCTION public.parley_add_to_month IS
    'For parley_add_to_limits: used tokens, percent told and end of period of a person or a server after a payment.';
