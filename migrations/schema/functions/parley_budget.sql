-- A budget as it stands now, from the columns of a row of `users` or `servers` (a server has no roles: NULL).
--
-- No limit means unlimited; what a person's roles give counts when it is more than the person's own limit.
-- `budget_reset_at` is the END of the period: once it has passed, nothing is used yet, and the end moves on by whole
-- periods of 30 days. The row is brought up to date by the next call that is paid.
--
-- The planner puts the body in place of the call, so that it costs nothing.
CREATE FUNCTION public.parley_budget(
    p_limit bigint, p_limit_from_roles bigint, p_used bigint, p_reserved bigint, p_reset_at timestamptz
)
RETURNS TABLE (budget bigint, used bigint, reserved bigint, resets_at timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE WHEN p_limit IS NOT NULL THEN greatest(p_limit, p_limit_from_roles) END,
           CASE WHEN p_reset_at <= now() THEN 0 ELSE p_used END,
           p_reserved,
           CASE WHEN p_reset_at <= now()
                THEN p_reset_at + interval '30 days' * (1 + floor(extract(epoch FROM now() - p_reset_at) / 2592000))
                ELSE p_reset_at END;
END;
COMMENT ON FUNCTION public.parley_budget IS
    'A budget as it stands now: limit in tokens (NULL: unlimited), used, reserved, end of the period.';
-- Views of admin call it with the rights of whoever looks.
GRANT EXECUTE ON FUNCTION public.parley_budget TO parley_readonly;
