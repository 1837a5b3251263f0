-- Stores the title of a claimed chat, made of what was said up to a turn, and ends the claim; p_title NULL: there is none. Returns
-- whether it is stored: not when the lease has been lost, or the turn is none of the branch that is chosen, or was forgotten.
CREATE FUNCTION public.parley_store_title(p_id bigint, p_lease timestamptz, p_turn_id bigint, p_title text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_shown int8multirange;
BEGIN
    UPDATE public.conversations SET summary_claimed_until = NULL WHERE id = p_id AND summary_claimed_until = p_lease
    RETURNING coalesce(shown_turns, '{(,)}') INTO v_shown;
    UPDATE public.conversation_titles SET title = p_title, turn_id = p_turn_id, titled_at = clock_timestamp()
    WHERE conversation_id = p_id AND p_title IS NOT NULL AND p_turn_id <@ v_shown
      AND NOT EXISTS (SELECT FROM public.forgotten_turns WHERE forgotten_turns.turn_id = p_turn_id);
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION public.parley_store_title IS
    'Stores the title of a claimed chat and ends the claim; false when the lease is lost or the branch left.';
