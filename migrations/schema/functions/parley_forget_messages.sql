-- Deletes the memories of these turns and of these messages of a platform, facts drawn from them included; returns how many.
-- Runs with the rights of its owner: a message that its platform has deleted is deleted for everybody.
CREATE FUNCTION public.parley_forget_messages(p_turn_ids bigint[], p_platform text, p_message_ids text[])
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_ids bigint[] := ARRAY(
        SELECT m.id FROM public.memories AS m
        WHERE m.turn_id = ANY (p_turn_ids) OR m.platform = p_platform AND m.platform_message_id = ANY (p_message_ids)
    );
    v_count bigint;
BEGIN
    PERFORM public.parley_lock_memories(v_ids);
    DELETE FROM public.memories AS m WHERE m.id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_forget_messages IS 'Forgets what was remembered of deleted messages and of turns.';
REVOKE EXECUTE ON FUNCTION public.parley_forget_messages FROM parley_admin;
