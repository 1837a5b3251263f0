-- Deletes the memories of these turns and of these messages of a platform, facts drawn from them included; returns how many.
-- Runs with the rights of its owner: a message that its platform has deleted is deleted for everybody.
CREATE FUNCTION public.parley_forget_messages(p_turn_ids bigint[], p_platform text, p_message_ids text[])
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH gone AS (
        DELETE FROM public.memories AS m
        WHERE m.turn_id = ANY (p_turn_ids) OR m.platform = p_platform AND m.platform_message_id = ANY (p_message_ids)
        RETURNING m.id
    )
    SELECT count(*) FROM gone
$$;
COMMENT ON FUNCTION public.parley_forget_messages IS 'Forgets what was remembered of deleted messages and of turns.';
REVOKE EXECUTE ON FUNCTION public.parley_forget_messages FROM parley_admin;
