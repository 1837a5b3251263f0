-- Locks limits, which is done before they are read or changed. Everywhere in one order: people, servers, rows of `budgets`,
-- each by their ids. So nobody waits in a circle, whoever locks several at once.
--
-- The gates are advisory locks that are taken before the row: whoever waited for the row itself would block the transaction
-- that holds it, when that one changes the row a second time. NO KEY UPDATE, because rows of new turns refer to the user. What
-- a gate protects is read by a statement after it: it sees what the last holder has written.
CREATE FUNCTION public.parley_lock_limits(p_user_ids bigint[], p_server_ids bigint[], p_budget_ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF num_nonnulls(VARIADIC p_user_ids) > 0 THEN
        PERFORM public.parley_lock_user(wanted.id)
        FROM (SELECT DISTINCT id FROM unnest(p_user_ids) AS id WHERE id IS NOT NULL ORDER BY id) AS wanted;
    END IF;
    IF num_nonnulls(VARIADIC p_server_ids) > 0 THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('server budget ' || wanted.id, 0))
        FROM (SELECT DISTINCT id FROM unnest(p_server_ids) AS id ORDER BY id) AS wanted;
        PERFORM FROM public.servers WHERE id = ANY (p_server_ids) ORDER BY id FOR NO KEY UPDATE;
    END IF;
    IF num_nonnulls(VARIADIC p_budget_ids) > 0 THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('limit ' || wanted.id, 0))
        FROM (SELECT DISTINCT id FROM unnest(p_budget_ids) AS id ORDER BY id) AS wanted;
        PERFORM FROM public.budgets WHERE id = ANY (p_budget_ids) ORDER BY id FOR NO KEY UPDATE;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_lock_limits IS
    'For the other functions: locks limits of people, of servers and rows of budgets, everywhere in the same order.';
