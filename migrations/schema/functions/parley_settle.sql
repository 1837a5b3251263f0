-- Pays for model calls that led to no step of the journal, gives back what the turn holds and, with p_reserve above 0,
-- holds that for the call that is made in their place. Returns no row when another attempt runs the turn.
CREATE FUNCTION public.parley_settle(
    p_turn_id bigint, p_attempt int, p_calls jsonb, p_reserve bigint DEFAULT 0, p_cost numeric DEFAULT NULL,
    p_seconds double precision DEFAULT 0
)
RETURNS TABLE (
    admitted boolean, refusal jsonb, reservation_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_turn record;
BEGIN
    UPDATE public.turns SET model = coalesce(p_calls -> -1 ->> 'model', model)
    WHERE turns.id = p_turn_id AND turns.attempt = p_attempt AND turns.status = 'running'
    RETURNING user_id, conversation_id, persona_id INTO v_turn;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- A turn whose user has been deleted has no budget to keep to.
    RETURN QUERY
    SELECT coalesce(charged.admitted, true), charged.refusal, charged.reservation_id
    FROM public.parley_charge(
        ROW(v_turn.user_id, v_turn.conversation_id, v_turn.persona_id, p_turn_id, false), p_calls,
        CASE WHEN p_reserve > 0 THEN p_reserve END, p_cost, p_seconds
    ) AS charged;
END
$$;
COMMENT ON FUNCTION public.parley_settle IS
    'Pays for model calls of a turn, gives back what it holds, and reserves tokens for the next call.';
