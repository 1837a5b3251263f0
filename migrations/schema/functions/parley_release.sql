-- Gives back what a turn holds and returns the tokens, 0 when it holds nothing.
CREATE FUNCTION public.parley_release(p_turn_id bigint) RETURNS bigint
LANGUAGE sql AS $$
    SELECT coalesce(max(charged.released), 0) FROM public.turns CROSS JOIN LATERAL public.parley_charge(
        ROW(turns.user_id, turns.conversation_id, turns.persona_id, turns.id, false)::public.parley_payer, '[]'
    ) AS charged
    WHERE turns.id = p_turn_id
$$;
COMMENT ON FUNCTION public.parley_release IS 'Gives back what a turn holds; returns the tokens.';
