-- Forgets those of these memories of a person that the caller may see, at the person's wish, with what was made of the
-- turns they were said in, and of the turn that asks, as parley_forget_turns does it. Returns how many there were;
-- without any, nothing changes.
CREATE FUNCTION public.parley_forget_memories(p_user_id bigint, p_ids bigint[], p_asked_in bigint DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
    v_turn_ids bigint[];
BEGIN
    SELECT count(*), array_agg(DISTINCT turn_id) INTO v_count, v_turn_ids FROM public.memories
    WHERE user_id = p_user_id AND id = ANY (p_ids);
    IF v_count > 0 THEN
        -- First: it waits for a worker that makes memories of these turns just now, which locks in this order.
        PERFORM public.parley_forget_turns(p_user_id, v_turn_ids || p_asked_in);
        PERFORM public.parley_lock_memories(p_ids);
        DELETE FROM public.memories WHERE user_id = p_user_id AND id = ANY (p_ids);
    END IF;
    RETURN v_count;
END
$$;
COMMENT ON FUNCTION public.parley_forget_memories IS
    'Forgets memories of a person and what else was made of the turns they were said in; returns how many.';
