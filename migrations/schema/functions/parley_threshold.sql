-- How full a limit is: 100, 80 or 50 percent, the highest that is reached, else 0. Nobody is told of a limit of 0.
CREATE FUNCTION public.parley_threshold(p_used numeric, p_limit numeric) RETURNS smallint
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT (CASE WHEN p_limit > 0 AND p_used >= p_limit THEN 100 WHEN p_limit > 0 AND p_used >= p_limit * 0.8 THEN 80
                 WHEN p_limit > 0 AND p_used >= p_limit * 0.5 THEN 50 ELSE 0 END)::smallint;
END;
COMMENT ON FUNCTION public.parley_threshold IS 'The highest of 50, 80 and 100 percent that a limit has reached, else 0.';
