-- Ends what dead turns hold: reservations that have expired. Each is charged as an estimate, or given back when no request
-- can have been sent (see parley_abandon). Returns how many there were. What dead summaries hold is ended by who goes on with
-- them, by the lease of the conversation.
--
-- All limits are locked before the first reservation is ended (see parley_lock_limits): two of these at once, or one beside
-- turns, wait instead of ending in a deadlock.
CREATE FUNCTION public.parley_expire_reservations() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_turn_ids bigint[];
    v_turn_id bigint;
    v_limits public.parley_limits[];
    v_count bigint := 0;
BEGIN
    v_turn_ids := ARRAY(SELECT turn_id FROM public.budget_reservations WHERE expires_at < now() AND turn_id IS NOT NULL);
    -- The ledger names turns and conversations; whoever erases a person has locked these before any limit.
    PERFORM FROM public.turns WHERE id = ANY (v_turn_ids) ORDER BY id FOR KEY SHARE;
    PERFORM FROM public.conversations
    WHERE id IN (SELECT conversation_id FROM public.turns WHERE turns.id = ANY (v_turn_ids)) ORDER BY id FOR KEY SHARE;
    v_limits := ARRAY(
        SELECT one FROM public.turns CROSS JOIN LATERAL public.parley_limits_of(
            ROW(turns.user_id, turns.conversation_id, turns.persona_id, turns.id, false)::public.parley_payer
        ) AS one
        WHERE turns.id = ANY (v_turn_ids)
        UNION ALL
        SELECT ROW(held.user_id, held.server_id, held.budget_ids)::public.parley_limits
        FROM public.budget_reservations AS held WHERE held.turn_id = ANY (v_turn_ids)
    );
    PERFORM public.parley_lock_limits(
        ARRAY(SELECT user_id FROM unnest(v_limits)), ARRAY(SELECT server_id FROM unnest(v_limits)),
        ARRAY(SELECT budget_id FROM unnest(v_limits) AS one CROSS JOIN LATERAL unnest(one.budget_ids) AS budget_id)
    );
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
