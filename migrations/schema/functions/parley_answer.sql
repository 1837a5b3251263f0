-- Answers an open question of a person (`approved`, `denied`), or closes it (`expired`); true when it was open. p_turn_id is
-- the turn of the answer, NULL where a command has asked. A yes counts only in time.
CREATE FUNCTION public.parley_answer(
    p_id bigint, p_user_id bigint, p_status text, p_turn_id bigint DEFAULT NULL, p_approved_by bigint DEFAULT NULL
)
RETURNS boolean
LANGUAGE sql AS $$
    UPDATE public.confirmations SET status = p_status, approved_by = p_approved_by,
        answered_at = CASE WHEN p_status <> 'expired' THEN now() END,
        answered_turn_id = CASE WHEN p_status <> 'expired' THEN p_turn_id END
    WHERE id = p_id AND user_id = p_user_id AND status = 'pending' AND (turn_id IS NULL) = (p_turn_id IS NULL)
      AND (p_status <> 'approved' OR expires_at > now())
    RETURNING true;
$$;
COMMENT ON FUNCTION public.parley_answer IS 'Answers or closes an open question of a person.';
