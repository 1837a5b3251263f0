-- Forgets what was said in these turns of a person, at the person's wish: memories and facts of it are deleted, summaries
-- withdrawn and written again without it, and no worker remembers or summarises the turns later. What the person asked to
-- remember in them stays; it is forgotten one by one. The transcript stays, as the history of the conversation.
--
-- Runs with the rights of its owner: a turn in a channel is also forgotten from a direct message.
CREATE FUNCTION public.parley_forget_turns(p_user_id bigint, p_turn_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_own bigint[];
BEGIN
    -- Before all else, as whoever deletes or edits a message.
    v_own := ARRAY(
        SELECT id FROM public.turns WHERE id = ANY(p_turn_ids) AND user_id = p_user_id ORDER BY id FOR NO KEY UPDATE
    );
    INSERT INTO public.forgotten_turns (turn_id) SELECT unnest(v_own) ON CONFLICT DO NOTHING;
    -- First, because it waits for a worker that stores the turn just now: then the next statement sees what was stored.
    DELETE FROM public.unremembered_turns WHERE turn_id = ANY(v_own);
    -- Then the summaries: a worker that writes one just now also stores facts, which only a later statement sees.
    PERFORM public.parley_forget_summaries(v_own);
    PERFORM public.parley_lock_memories(ARRAY(
        SELECT id FROM public.memories WHERE turn_id = ANY(v_own) AND source <> 'remembered'
    ));
    DELETE FROM public.memories WHERE turn_id = ANY(v_own) AND source <> 'remembered';
END
$$;
COMMENT ON FUNCTION public.parley_forget_turns IS
    'Forgets what was said in these turns of a person: memories, facts and summaries; the transcript stays.';
REVOKE EXECUTE ON FUNCTION public.parley_forget_turns FROM parley_admin;
