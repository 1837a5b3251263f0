-- Reads all that the next turn of a job's place begins with, in one round trip. No row: another worker has taken over the job,
-- or the place has no open messages; so a worker that was frozen does not take the turn back from the one that has
-- continued it.
--
-- `messages` are the place's open ones, at most p_limit. Those of an interrupted turn come first, even before messages that
-- were sent earlier but arrived later. `participants` are the sender of the first one, the persona, and the
-- conversation, which is made if there is none; NULL where the sender has no account yet. `history` is what was said
-- there before (`parley_history`).
--
-- It does not wait for the disk: the begin of the turn, which follows, flushes the conversation and the drawn turn id too.
CREATE FUNCTION public.parley_prepare_turn(p_job_id bigint, p_limit integer)
RETURNS TABLE (messages json, participants json, history json)
LANGUAGE plpgsql AS $$
DECLARE
    v_first public.inbox;
    v_user record;
    v_persona record;
    v_place record;
    v_chosen record;
    v_model text;
    v_turn_id bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT json_agg(open) INTO messages FROM (
        SELECT id, adapter, platform, platform_event_id, platform_server_id, platform_channel_id, platform_thread_id,
               is_direct, platform_user_id, platform_username, platform_message_id, content, attachments, wants_stream,
               CASE WHEN platform_context ? 'earlier' AND EXISTS (SELECT FROM public.forgotten_turns)
                    THEN public.parley_without_forgotten(platform, platform_context) ELSE platform_context
               END AS platform_context,
               sent_at, coalesce(edited_at, created_at) AS changed_at, turn_id, decision, replied_to, due_job, credentials, request
        FROM public.inbox
        WHERE place_key = (SELECT place_key FROM public.jobs WHERE id = p_job_id) AND status IN ('waiting', 'claimed')
        ORDER BY turn_id IS NULL, sent_at, id LIMIT p_limit
    ) AS open;
    IF messages IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO v_first FROM public.inbox WHERE id = (messages -> 0 ->> 'id')::bigint;
    SELECT * INTO v_user FROM public.parley_find_user(v_first.platform, v_first.platform_user_id);
    IF NOT FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;
    SELECT * INTO v_persona
    FROM public.parley_find_persona(NULL, v_first.platform, v_first.platform_server_id, v_first.platform_channel_id);
    SELECT * INTO v_place FROM public.parley_resolve_conversation(
        v_first.platform, v_first.platform_server_id, v_first.platform_channel_id, v_first.platform_thread_id,
        v_first.is_direct, v_user.id, v_persona.id,
        v_first.request IS NULL OR (v_first.request -> 'has_conversation')::boolean, v_first.adapter
    );
    -- Rare: what the person has chosen for this conversation, as far as it is open to them now.
    IF v_place.chosen_persona_id IS NOT NULL THEN
        SELECT * INTO v_chosen FROM public.parley_find_chosen_persona(v_place.chosen_persona_id, v_user.permission_level);
        IF FOUND THEN
            v_persona := v_chosen;
        END IF;
        UPDATE public.conversations SET persona_id = v_persona.id
        WHERE conversations.id = v_place.id AND conversations.persona_id IS DISTINCT FROM v_persona.id;
    END IF;
    IF v_place.chosen_model IS NOT NULL THEN
        SELECT open.model INTO v_model FROM public.open_models AS open
        WHERE open.model = v_place.chosen_model AND public.parley_is_open(open.open_to, v_user.permission_level);
    END IF;
    v_turn_id := coalesce(v_first.turn_id, nextval('public.turns_id_seq'));
    participants := json_build_object(
        'turn_id', v_turn_id, 'user', to_json(v_user), 'persona', CASE WHEN v_persona.id IS NOT NULL THEN to_json(v_persona) END,
        'conversation', to_json(v_place), 'model', v_model,
        -- Whoever has memories of their own is recalled those of the place with them.
        'place_has_memories', NOT (v_user.has_memories OR v_first.is_direct) AND public.parley_place_has_memories(
            v_first.platform, v_first.platform_server_id, v_first.platform_channel_id, v_first.platform_thread_id
        ),
        'is_server_paused', EXISTS (
            SELECT FROM public.servers WHERE platform = v_first.platform
              AND platform_server_id = v_first.platform_server_id AND paused_at IS NOT NULL
        ),
        'agents', (SELECT agents FROM public.parley_list_agents()),
        'modules', (SELECT modules FROM public.parley_list_modules())
    );
    history := CASE WHEN v_place.is_new THEN '[]' ELSE public.parley_history(
        v_place.id, v_place.window_turn_id, v_turn_id, CASE WHEN v_first.is_direct THEN v_user.id END, v_place.shown_turns
    ) END;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_prepare_turn IS
    'Reads what the next turn of a place begins with: its open messages, the participants, and the history.';
