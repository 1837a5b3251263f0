-- Forgets everything of a person, at the person's wish: all memories with their words and vectors, and what was made of
-- the person's turns, as parley_forget_turns does it. The transcript stays. Returns how many memories there were.
--
-- Runs with the rights of its owner: memories are hidden from everybody else.
CREATE FUNCTION public.parley_forget_all(p_user_id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_count bigint;
BEGIN
    SELECT count(*) INTO v_count FROM public.memories AS m WHERE m.user_id = p_user_id;
    PERFORM public.parley_forget_turns(p_user_id, ARRAY(
        SELECT t.id FROM public.turns AS t
        WHERE t.user_id = p_user_id AND NOT EXISTS (SELECT FROM public.forgotten_turns AS f WHERE f.turn_id = t.id)
    ));
    PERFORM public.parley_lock_memories(ARRAY(SELECT m.id FROM public.memories AS m WHERE m.user_id = p_user_id));
    DELETE FROM public.memories AS m WHERE m.user_id = p_user_id;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_forget_all IS
    'Forgets everything of a person: memories, facts and summaries; the transcript stays. Returns how many memories.';
REVOKE EXECUTE ON FUNCTION public.parley_forget_all FROM parley_admin;
