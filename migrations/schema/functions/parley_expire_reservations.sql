-- Ends what dead turns hold: reservations that have expired. Each is charged as an estimate, or given back when no request
-- can have been sent (see parley_abandon). Returns how many there were.
--
-- All locks are taken before the first reservation is ended, in the order of parley_charge: all people by their ids, then
-- all servers, then all rows of `budgets`. Two of these at once, or one beside turns, wait instead of ending in a deadlock.
CREATE FUNCTION public.parley_expire_reservations() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_turn_ids bigint[];
    v_turn_id bigint;
    v_count bigint := 0;
BEGIN
    v_turn_ids := ARRAY(SELECT turn_id FROM public.budget_reservations WHERE expires_at < now());
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || payer.id, 0)) FROM (
        SELECT DISTINCT user_id AS id FROM public.budget_reservations WHERE turn_id = ANY (v_turn_ids) ORDER BY user_id
    ) AS payer;
    PERFORM FROM public.users
    WHERE users.id IN (SELECT user_id FROM public.budget_reservations WHERE turn_id = ANY (v_turn_ids))
    ORDER BY users.id FOR NO KEY UPDATE;
    PERFORM pg_advisory_xact_lock(hashtextextended('server budget ' || payer.id, 0)) FROM (
        SELECT DISTINCT servers.id FROM public.turns JOIN public.conversations ON conversations.id = turns.conversation_id
        JOIN public.servers USING (platform, platform_server_id) WHERE turns.id = ANY (v_turn_ids) ORDER BY servers.id
    ) AS payer;
    IF EXISTS (SELECT FROM public.budgets) THEN
        PERFORM public.parley_lock_budgets(ARRAY(
            SELECT unnest(
                coalesce(held.budget_ids, '{}')
                || public.parley_find_budgets(turns.user_id, turns.conversation_id, turns.persona_id)
            )
            FROM public.budget_reservations AS held JOIN public.turns ON turns.id = held.turn_id
            WHERE held.turn_id = ANY (v_turn_ids)
        ));
    END IF;

    FOR v_turn_id IN
        SELECT turn_id FROM public.budget_reservations WHERE turn_id = ANY (v_turn_ids) AND expires_at < now()
        ORDER BY turn_id
    LOOP
        PERFORM public.parley_abandon(v_turn_id);
        v_count := v_count + 1;
    END LOOP;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_expire_reservations IS
    'Ends reservations that have expired: charged as an estimate, or given back; returns how many.';
