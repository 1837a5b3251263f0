-- Holds tokens, and p_cost dollars, for the turn's next model call, for p_seconds at most, if all limits admit it (see
-- parley_charge). p_cost is NULL when the price is unknown.
-- Returns no row when another attempt runs the turn.
CREATE FUNCTION public.parley_reserve(
    p_user_id bigint, p_turn_id bigint, p_attempt int, p_tokens bigint, p_cost numeric, p_seconds double precision
)
RETURNS TABLE (
    admitted boolean, refusal jsonb, reservation_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_turn record;
    v_charged record;
BEGIN
    SELECT conversation_id, persona_id INTO v_turn FROM public.turns
    WHERE turns.id = p_turn_id AND turns.attempt = p_attempt AND turns.status = 'running' FOR KEY SHARE;
    IF FOUND THEN
        v_charged := public.parley_charge(
            ROW(p_user_id, v_turn.conversation_id, v_turn.persona_id, p_turn_id, false), NULL, p_tokens, p_cost, p_seconds
        );
        admitted := v_charged.admitted;
        refusal := v_charged.refusal;
        reservation_id := v_charged.reservation_id;
        IF admitted IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_reserve IS
    'Holds tokens for the next model call of a turn, if all limits that apply admit it.';
