-- Chooses the branch of a conversation: the turns whose ids are in p_shown, those to come included. What was said in other
-- turns is shown to no model, nor remembered or summarised, until their branch is chosen again: memories and facts of it are
-- deleted, summaries of it withdrawn, and questions of it closed. What the person asked to remember in them stays. Nothing is
-- deleted from the transcript. The caller has made sure that no message of the place is open.
--
-- Runs with the rights of its owner, as parley_forget_turns.
CREATE FUNCTION public.parley_show_turns(p_conversation_id bigint, p_shown int8multirange) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_before int8multirange;
    v_hidden bigint[];
    v_back bigint[];
BEGIN
    SELECT coalesce(shown_turns, '{(,)}') INTO v_before FROM public.conversations
    WHERE id = p_conversation_id FOR NO KEY UPDATE;
    v_hidden := ARRAY(
        SELECT t.id FROM public.turns AS t
        WHERE t.conversation_id = p_conversation_id AND t.id <@ v_before AND NOT t.id <@ p_shown ORDER BY t.id
    );
    v_back := ARRAY(
        SELECT t.id FROM public.turns AS t
        WHERE t.conversation_id = p_conversation_id AND t.id <@ p_shown AND NOT t.id <@ v_before ORDER BY t.id
    );
    UPDATE public.conversations SET shown_turns = p_shown WHERE id = p_conversation_id;
    PERFORM public.parley_withdraw_questions(v_hidden);
    -- First, because it waits for a worker that stores the turn just now: then the next statements see what was stored.
    DELETE FROM public.unremembered_turns WHERE turn_id = ANY (v_hidden);
    PERFORM public.parley_forget_summaries(v_hidden || v_back);
    PERFORM public.parley_lock_memories(ARRAY(
        SELECT id FROM public.memories WHERE turn_id = ANY (v_hidden) AND source <> 'remembered'
    ));
    DELETE FROM public.memories WHERE turn_id = ANY (v_hidden) AND source <> 'remembered';
    INSERT INTO public.unremembered_turns (turn_id)
    SELECT t.id FROM public.turns AS t
    WHERE t.id = ANY (v_back) AND t.parent_turn_id IS NULL
      AND NOT EXISTS (SELECT FROM public.forgotten_turns AS f WHERE f.turn_id = t.id)
    ON CONFLICT DO NOTHING;
    -- The model is shown again what only the other branch was too long for.
    UPDATE public.conversations SET window_turn_id = summarized_turn_id + 1
    WHERE id = p_conversation_id AND window_turn_id > summarized_turn_id + 1
      AND window_turn_id > (SELECT min(changed.id) FROM unnest(v_hidden || v_back) AS changed (id));
END
$$;
COMMENT ON FUNCTION public.parley_show_turns IS
    'Chooses the branch of a conversation; what was said in others is neither shown to a model nor remembered meanwhile.';
REVOKE EXECUTE ON FUNCTION public.parley_show_turns FROM parley_admin;
