-- Ends what dead turns hold: reservations that have expired. Each is charged as an estimate, or given back when no request
-- can have been sent (see parley_abandon_v2). Returns how many there were.
--
-- All people are locked before the first reservation is ended, in the order of their ids: two of these at once wait
-- for each other instead of ending in a deadlock. Servers come after all people, as everywhere, in an order of their own.
CREATE FUNCTION public.parley_expire_reservations_v3() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_user_ids bigint[];
    v_user_id bigint;
    v_turn_id bigint;
    v_count bigint := 0;
BEGIN
    v_user_ids := ARRAY(
        SELECT DISTINCT user_id FROM public.budget_reservations WHERE expires_at < now() ORDER BY user_id
    );
    FOREACH v_user_id IN ARRAY v_user_ids LOOP
        PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || v_user_id, 0));
    END LOOP;
    PERFORM FROM public.users WHERE users.id = ANY(v_user_ids) ORDER BY users.id FOR NO KEY UPDATE;

    FOR v_turn_id IN
        SELECT turn_id FROM public.budget_reservations WHERE user_id = ANY(v_user_ids) AND expires_at < now()
        ORDER BY server_id, turn_id
    LOOP
        PERFORM public.parley_abandon_v2(v_turn_id);
        v_count := v_count + 1;
    END LOOP;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_expire_reservations_v3 IS
    'Ends reservations that have expired: charged as an estimate, or given back; returns how many.';
