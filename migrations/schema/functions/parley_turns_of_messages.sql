-- Returns the turns that memories of these messages of a platform come from. Rows of the inbox go after some time, and a
-- message that is deleted later is found by its memories.
-- Runs with the rights of its owner: a message that its platform has deleted is deleted for everybody.
CREATE FUNCTION public.parley_turns_of_messages(p_platform text, p_message_ids text[]) RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT m.turn_id FROM public.memories AS m
    WHERE m.platform = p_platform AND m.platform_message_id = ANY (p_message_ids) AND m.turn_id IS NOT NULL
$$;
COMMENT ON FUNCTION public.parley_turns_of_messages IS
    'The turns that memories of these messages come from; for messages that the inbox does not have any more.';
REVOKE EXECUTE ON FUNCTION public.parley_turns_of_messages FROM parley_admin;
