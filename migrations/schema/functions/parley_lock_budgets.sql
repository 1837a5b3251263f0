-- Locks rows of `budgets` in the order of their ids: first the gates (see parley_charge), then the rows themselves,
-- because an admin's statement that changes several takes no gate.
CREATE FUNCTION public.parley_lock_budgets(p_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('limit ' || wanted.id, 0))
    FROM (SELECT DISTINCT given.id FROM unnest(p_ids) AS given (id) ORDER BY given.id) AS wanted;
    PERFORM FROM public.budgets WHERE id = ANY (p_ids) ORDER BY id FOR NO KEY UPDATE;
END
$$;
COMMENT ON FUNCTION public.parley_lock_budgets IS 'For the other functions: locks rows of budgets in the order of their ids.';
