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
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || wanted.id, 0)) FROM unnest(v_people) AS wanted (id);
    PERFORM FROM public.users AS u WHERE u.id = ANY (v_people) ORDER BY u.id FOR NO KEY UPDATE;
    PERFORM pg_advisory_xact_lock(hashtextextended('server budget ' || wanted.id, 0)) FROM unnest(v_servers) AS wanted (id);
    PERFORM FROM public.servers AS s WHERE s.id = ANY (v_servers) ORDER BY s.id FOR NO KEY UPDATE;
    PERFORM public.parley_lock_budgets(v_limits);
    -- A period that is over begins anew first, as with the next call that is paid.
    UPDATE public.users AS u SET tokens_used_this_month = 0, budget_percent_told = 0, budget_reset_at = (
        SELECT standing.resets_at FROM public.parley_budget(NULL, NULL, 0, 0, u.budget_reset_at) AS standing
    ) WHERE u.id = ANY (v_people) AND u.budget_reset_at <= now();
    UPDATE public.servers AS s SET tokens_used_this_month = 0, budget_percent_told = 0, budget_reset_at = (
        SELECT standing.resets_at FROM public.parley_budget(NULL, NULL, 0, 0, s.budget_reset_at) AS standing
    ) WHERE s.id = ANY (v_servers) AND s.budget_reset_at <= now();
    PERFORM public.parley_add_to_budgets(v_limits, 0, 0, 0, 0);
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
