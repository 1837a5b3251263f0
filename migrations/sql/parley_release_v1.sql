-- Gives back what a turn holds and returns the tokens, 0 when it holds nothing. The order of locks is that of
-- parley_charge_v1.
CREATE FUNCTION public.parley_release_v1(p_turn_id bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_user_id bigint;
    v_held bigint;
    v_server_id bigint;
BEGIN
    SELECT user_id INTO v_user_id FROM public.turns WHERE turns.id = p_turn_id;
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || v_user_id, 0));
    PERFORM FROM public.users WHERE users.id = v_user_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM public.budget_reservations WHERE budget_reservations.turn_id = p_turn_id
    RETURNING tokens, server_id INTO v_held, v_server_id;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    UPDATE public.users SET tokens_reserved = greatest(0, tokens_reserved - v_held) WHERE users.id = v_user_id;
    UPDATE public.servers SET tokens_reserved = greatest(0, tokens_reserved - v_held) WHERE servers.id = v_server_id;
    RETURN v_held;
END
$$;
COMMENT ON FUNCTION public.parley_release_v1 IS 'Gives back what a turn holds; returns the tokens.';
