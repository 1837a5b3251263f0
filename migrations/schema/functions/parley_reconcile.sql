-- Sets counters that differ from the ledger (parley_budget_differences) to what the ledger says, and returns what was changed.
-- Only what differs is locked, in the order of parley_charge; then it is compared again.
CREATE FUNCTION public.parley_reconcile()
RETURNS TABLE (subject text, id bigint, counter text, counted numeric, ledger numeric)
LANGUAGE plpgsql AS $$
DECLARE
    v_people bigint[];
    v_servers bigint[];
    v_limits bigint[];
    v_row record;
BEGIN
    SELECT array_agg(DISTINCT d.id ORDER BY d.id) FILTER (WHERE d.subject = 'users'),
           array_agg(DISTINCT d.id ORDER BY d.id) FILTER (WHERE d.subject = 'servers'),
           array_agg(DISTINCT d.id ORDER BY d.id) FILTER (WHERE d.subject = 'budgets')
    INTO v_people, v_servers, v_limits FROM public.parley_budget_differences() AS d;
    PERFORM public.parley_lock_limits(v_people, v_servers, v_limits);
    -- A period that is over begins anew first, as with the next call that is paid.
    PERFORM public.parley_add_to_limits(ROW(one.user_id, one.server_id, ARRAY[one.budget_id]), 0, 0, 0, 0)
    FROM unnest(v_people, v_servers, v_limits) AS one (user_id, server_id, budget_id);
    FOR v_row IN
        SELECT d.* FROM public.parley_budget_differences() AS d
        WHERE d.id = ANY (CASE d.subject WHEN 'users' THEN v_people WHEN 'servers' THEN v_servers ELSE v_limits END)
    LOOP
        EXECUTE format('UPDATE public.%I SET %I = $1 WHERE id = $2', v_row.subject, v_row.counter)
            USING v_row.ledger, v_row.id;
        subject := v_row.subject;
        id := v_row.id;
        counter := v_row.counter;
        counted := v_row.counted;
        ledger := v_row.ledger;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_reconcile IS
    'Sets what limits have counted to what the ledger says, and returns what it changed.';
