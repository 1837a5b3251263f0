-- Gives back what a turn holds and returns the tokens, 0 when it holds nothing. The order of locks is that of
-- parley_charge.
CREATE FUNCTION public.parley_release(p_turn_id bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_user_id bigint;
    v_held record;
BEGIN
    SELECT user_id INTO v_user_id FROM public.turns WHERE turns.id = p_turn_id;
    PERFORM pg_advisory_xact_lock(hashtextextended('budget ' || v_user_id, 0));
    PERFORM FROM public.users WHERE users.id = v_user_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM public.budget_reservations WHERE budget_reservations.turn_id = p_turn_id
    RETURNING tokens, cost, server_id, budget_ids INTO v_held;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    UPDATE public.users SET tokens_reserved = greatest(0, tokens_reserved - v_held.tokens) WHERE users.id = v_user_id;
    PERFORM pg_advisory_xact_lock(hashtextextended('server budget ' || v_held.server_id, 0));
    UPDATE public.servers SET tokens_reserved = greatest(0, tokens_reserved - v_held.tokens)
    WHERE servers.id = v_held.server_id;
    IF v_held.budget_ids IS NOT NULL THEN
        PERFORM public.parley_lock_budgets(v_held.budget_ids);
        PERFORM public.parley_add_to_budgets(v_held.budget_ids, 0, 0, -v_held.tokens, -coalesce(v_held.cost, 0));
    END IF;
    RETURN v_held.tokens;
END
$$;
COMMENT ON FUNCTION public.parley_release IS 'Gives back what a turn holds; returns the tokens.';
