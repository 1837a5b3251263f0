-- The period of a row of `budgets`: days and months of the calendar in UTC. `budgets.resets_at` is the END of the period that
-- the row counts; once it has passed (`is_over`), nothing is used yet.
CREATE FUNCTION public.parley_limit_period(p_period text, p_resets_at timestamptz)
RETURNS TABLE (is_over boolean, starts_at timestamptz, resets_at timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT p_resets_at <= now(), (period.ends - period.length) AT TIME ZONE 'UTC', period.ends AT TIME ZONE 'UTC'
    FROM (
        SELECT CASE WHEN p_resets_at > now() THEN p_resets_at AT TIME ZONE 'UTC'
                    ELSE date_trunc(p_period, now() AT TIME ZONE 'UTC') + ('1 ' || p_period)::interval END AS ends,
               ('1 ' || p_period)::interval AS length
    ) AS period;
END;
COMMENT ON FUNCTION public.parley_limit_period IS
    'The period of a row of budgets as it stands now: is the stored one over, where does the current one begin and end.';
-- Views of admin call it with the rights of whoever looks.
GRANT EXECUTE ON FUNCTION public.parley_limit_period TO parley_readonly;
