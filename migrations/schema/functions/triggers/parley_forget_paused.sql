-- Trigger: a turn that ends while its person or its conversation is not to be remembered is forgotten, so that no worker
-- makes a memory, a fact or a summary of it when the pause is over.
-- Runs with the rights of its owner, like all that forgets.
CREATE FUNCTION public.parley_forget_paused() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public.forgotten_turns (turn_id)
    SELECT t.id FROM public.turns AS t JOIN public.conversations AS c ON c.id = t.conversation_id
    LEFT JOIN public.users AS u ON u.id = t.user_id
    WHERE t.id = NEW.turn_id AND (c.is_memory_paused OR u.is_memory_paused)
    ON CONFLICT DO NOTHING;
    RETURN CASE WHEN FOUND THEN NULL ELSE NEW END;
END
$$;
COMMENT ON FUNCTION public.parley_forget_paused IS
    'Trigger: forgets a turn that ends while its person or its conversation is not to be remembered.';
REVOKE EXECUTE ON FUNCTION public.parley_forget_paused FROM parley_app;
