-- Finds the conversation of a place, or makes it, and notes that something is said in it. When a worker looks whether it
-- has paused is set for what is remembered; the time is kept while it is set, so that the turns of a lively conversation
-- need not change the index. The persona of a conversation for which one is chosen is set by whoever finds that one.
CREATE FUNCTION public.parley_resolve_conversation(
    p_platform text, p_server text, p_channel text, p_thread text, p_is_direct boolean, p_user_id bigint, p_persona_id bigint,
    p_is_remembered boolean, p_adapter text DEFAULT NULL
)
RETURNS TABLE (
    id bigint, summary text, window_turn_id bigint, summarized_turn_id bigint, owner_id bigint, is_new boolean,
    shown_turns int8multirange, chosen_persona_id bigint, chosen_model text
)
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO public.conversations AS place (
        platform, platform_server_id, platform_channel_id, platform_thread_id, is_direct, user_id, persona_id, summary_due_at, adapter
    )
    VALUES (p_platform, p_server, p_channel, p_thread, p_is_direct, p_user_id, p_persona_id,
            CASE WHEN p_is_remembered THEN now() + interval '30 minutes' END, p_adapter)
    ON CONFLICT ON CONSTRAINT uq_conversations_place DO UPDATE
    SET last_active_at = now(), persona_id = CASE WHEN place.chosen_persona_id IS NULL THEN excluded.persona_id ELSE place.persona_id END,
        is_summarized = false, adapter = coalesce(excluded.adapter, place.adapter),
        summary_due_at = coalesce(place.summary_due_at, excluded.summary_due_at)
    -- A row that was there before is locked by its update.
    RETURNING place.id, place.summary, place.window_turn_id, place.summarized_turn_id, place.user_id, place.xmax = 0,
              place.shown_turns, place.chosen_persona_id, place.chosen_model;
END;
COMMENT ON FUNCTION public.parley_resolve_conversation IS
    'Finds the conversation of a place or makes it, and notes that something is said in it.';
