-- Holds tokens for the turn's next model call, for p_seconds at most, if the budgets admit it (see parley_charge_v2).
-- Returns no row when another attempt runs the turn.
CREATE FUNCTION public.parley_reserve_v2(
    p_user_id bigint, p_turn_id bigint, p_attempt int, p_tokens bigint, p_seconds double precision
)
RETURNS TABLE (
    admitted boolean, by_server boolean, used bigint, budget bigint, resets_at timestamptz, reservation_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_conversation_id bigint;
    v_charged record;
BEGIN
    SELECT conversation_id INTO v_conversation_id FROM public.turns
    WHERE turns.id = p_turn_id AND turns.attempt = p_attempt AND turns.status = 'running';
    IF FOUND THEN
        v_charged := public.parley_charge_v2(p_turn_id, p_user_id, v_conversation_id, NULL, p_tokens, p_seconds);
        admitted := v_charged.admitted;
        by_server := v_charged.by_server;
        used := v_charged.used;
        budget := v_charged.budget;
        resets_at := v_charged.resets_at;
        reservation_id := v_charged.reservation_id;
        IF admitted IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_reserve_v2 IS
    'Holds tokens for the next model call of a turn, if the budgets of the person and of the server admit it.';
