-- What of persona_id and model `p_choices` names is chosen, JSON null: that of the place; what it does not name stays. Answers false,
-- and changes nothing, when the conversation is not this person's own, or one of the two is not open to them.
CREATE FUNCTION public.parley_choose(p_conversation_id bigint, p_user_id bigint, p_choices jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_level text := (
        SELECT public.parley_permission(permission_level, permission_until, permission_after) FROM public.users WHERE id = p_user_id
    );
BEGIN
    -- Whoever removes the persona now is waited for: then it is not open.
    PERFORM FROM public.personas WHERE id = (p_choices ->> 'persona_id')::bigint FOR KEY SHARE;
    UPDATE public.conversations AS place SET
        chosen_persona_id = CASE WHEN p_choices ? 'persona_id' THEN (p_choices ->> 'persona_id')::bigint ELSE place.chosen_persona_id END,
        chosen_model = CASE WHEN p_choices ? 'model' THEN p_choices ->> 'model' ELSE place.chosen_model END
    WHERE place.id = p_conversation_id AND place.is_direct AND place.user_id = p_user_id
      AND (p_choices ->> 'persona_id' IS NULL OR EXISTS (
          SELECT FROM public.personas AS persona
          WHERE persona.id = (p_choices ->> 'persona_id')::bigint AND public.parley_is_open(persona.open_to, v_level)
      ))
      AND (p_choices ->> 'model' IS NULL OR EXISTS (
          SELECT FROM public.open_models AS open
          WHERE open.model = p_choices ->> 'model' AND public.parley_is_open(open.open_to, v_level)
      ));
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION public.parley_choose IS 'Chooses the persona or the model of a person''s own conversation, among those that are open to them.';
