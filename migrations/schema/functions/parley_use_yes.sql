-- Uses up a yes: what was asked may be done now, once. Returns no row when it was used before or does not count any more, or
-- when another attempt runs the turn of the answer. Where a command has asked, there is no turn, and the caller's transaction
-- also does it.
--
-- Where a permission was needed for the yes, whoever said it must have that at this moment, and must not be paused: the turn
-- may have been interrupted since. A yes of somebody who was deleted counts as the person's own.
CREATE FUNCTION public.parley_use_yes(p_id bigint, p_turn_id bigint DEFAULT NULL, p_attempt int DEFAULT NULL)
RETURNS TABLE (tool text, arguments text, question text, agent text)
LANGUAGE sql AS $$
    UPDATE public.confirmations SET status = 'used', used_at = now()
    WHERE id = p_id AND status = 'approved' AND (turn_id IS NULL) = (p_turn_id IS NULL)
      AND answered_turn_id IS NOT DISTINCT FROM p_turn_id
      AND (p_turn_id IS NULL OR EXISTS (
          SELECT FROM public.turns WHERE turns.id = p_turn_id AND turns.attempt = p_attempt AND turns.status = 'running'
            AND turns.user_id = confirmations.user_id
      ))
      AND (approver_level IS NULL OR EXISTS (
          SELECT FROM public.parley_permissions_in(
              coalesce(confirmations.approved_by, confirmations.user_id), confirmations.conversation_id
          ) AS permission
          WHERE array_position('{guest,user,admin,owner}', permission.permission_level)
                >= array_position('{guest,user,admin,owner}', confirmations.approver_level)
      ))
    RETURNING confirmations.tool, confirmations.arguments, confirmations.question, confirmations.agent;
$$;
COMMENT ON FUNCTION public.parley_use_yes IS 'Uses up a yes: what was asked may be done now, once.';
