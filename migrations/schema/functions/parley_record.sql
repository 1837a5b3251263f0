-- Records steps and events of a running turn. With p_calls, the model calls that led
-- to the steps, it pays for them too and reserves p_reserve tokens for the next call (see parley_charge); without,
-- money is not touched and the columns after `stop_requested` are NULL. Returns no row when another attempt runs the
-- turn: the locked row of `turns` is the fence.
CREATE FUNCTION public.parley_record(
    p_turn_id bigint, p_attempt int, p_steps jsonb, p_events jsonb,
    p_calls jsonb DEFAULT NULL, p_reserve bigint DEFAULT 0, p_cost numeric DEFAULT NULL,
    p_seconds double precision DEFAULT 0
)
RETURNS TABLE (
    stop_requested boolean, admitted boolean, refusal jsonb, reservation_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_turn record;
    v_charged record;
BEGIN
    IF p_calls IS NULL THEN
        SELECT user_id, conversation_id, persona_id, parent_turn_id, turns.stop_requested INTO v_turn FROM public.turns
        WHERE turns.id = p_turn_id AND turns.attempt = p_attempt AND turns.status = 'running' FOR NO KEY UPDATE;
    ELSE
        UPDATE public.turns SET model = coalesce(p_calls -> -1 ->> 'model', model),
            iterations = iterations + CASE WHEN jsonb_array_length(p_calls) > 0 THEN 1 ELSE 0 END
        WHERE turns.id = p_turn_id AND turns.attempt = p_attempt AND turns.status = 'running'
        RETURNING user_id, conversation_id, persona_id, parent_turn_id, turns.stop_requested INTO v_turn;
    END IF;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    stop_requested := v_turn.stop_requested;
    PERFORM public.parley_write_journal(
        p_turn_id, CASE WHEN v_turn.parent_turn_id IS NULL THEN v_turn.conversation_id END, v_turn.user_id,
        p_steps, p_events
    );
    IF p_calls IS NOT NULL THEN
        v_charged := public.parley_charge(
            ROW(v_turn.user_id, v_turn.conversation_id, v_turn.persona_id, p_turn_id, false), p_calls,
            CASE WHEN p_reserve > 0 THEN p_reserve END, p_cost, p_seconds
        );
        -- A turn whose user has been deleted has no budget to keep to.
        admitted := coalesce(v_charged.admitted, true);
        refusal := v_charged.refusal;
        reservation_id := v_charged.reservation_id;
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_record IS
    'Records steps and events of a running turn; pays for the model calls behind them and reserves the next.';
