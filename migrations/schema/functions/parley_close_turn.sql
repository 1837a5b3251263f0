-- Ends a turn: records its last step and events, pays for its last model calls, gives back what it holds, stores the
-- reply, and marks its messages as answered. Returns no row, and changes nothing, when another attempt runs the turn.
--
-- p_reply: the row of the outbox, {adapter, platform, server, channel, thread, is_direct, reply_to, content, files,
-- choices, status, lease}; NULL for the turn of an agent, whose answer is read by the turn that asked it.
-- p_question: the row of the confirmation with which the turn ends, if it ends with one. It is made here, together with
-- the reply: nobody can agree to what was not shown.
CREATE FUNCTION public.parley_close_turn(
    p_turn_id bigint, p_attempt int, p_status text, p_finished boolean, p_waves int, p_error text, p_cause text,
    p_steps jsonb, p_events jsonb, p_note text, p_calls jsonb, p_reply jsonb, p_question jsonb DEFAULT NULL
)
RETURNS TABLE (reply_id bigint, live_message_id text, is_claimed boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_turn record;
BEGIN
    UPDATE public.turns SET iterations = iterations + CASE WHEN jsonb_array_length(p_calls) > 0 THEN 1 ELSE 0 END,
        model = coalesce(p_calls -> -1 ->> 'model', model), status = p_status, waves = p_waves, finished = p_finished,
        error = p_error, cause = p_cause, finished_at = now()
    WHERE turns.id = p_turn_id AND turns.attempt = p_attempt AND turns.status = 'running'
    RETURNING user_id, conversation_id, persona_id, parent_turn_id, turns.live_message_id INTO v_turn;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    live_message_id := v_turn.live_message_id;
    PERFORM public.parley_write_journal(
        p_turn_id, CASE WHEN v_turn.parent_turn_id IS NULL THEN v_turn.conversation_id END, v_turn.user_id,
        p_steps, p_events
    );
    IF p_reply IS NOT NULL THEN
        INSERT INTO public.outbox (turn_id, adapter, platform, platform_server_id, platform_channel_id,
                                   platform_thread_id, place_key, is_direct, reply_to, live_message_id, content,
                                   files, choices, status, attempts, claimed_until, delivered_at)
        SELECT p_turn_id, reply.adapter, reply.platform, reply.server, reply.channel, reply.thread, reply.place_key,
               reply.is_direct, reply.reply_to, v_turn.live_message_id, reply.content, reply.files, reply.choices,
               CASE WHEN reply.status = 'claimed' AND has_to_wait THEN 'pending' ELSE reply.status END, 0,
               CASE WHEN reply.status = 'claimed' AND NOT has_to_wait THEN now() + reply.lease * interval '1 second' END,
               CASE WHEN reply.status = 'delivered' THEN now() END
        FROM jsonb_to_record(p_reply) AS reply
            (adapter text, platform text, server text, channel text, thread text, is_direct boolean, reply_to text,
             content text, files jsonb, choices jsonb, status text, lease double precision, place_key text)
        -- Behind an earlier reply of the place, and while the platform is down, it waits for the sweeper.
        CROSS JOIN LATERAL (SELECT EXISTS (
            SELECT FROM public.outbox AS earlier
            WHERE earlier.place_key = reply.place_key AND earlier.status IN ('pending', 'claimed')
        ) OR EXISTS (
            SELECT FROM public.delivery_outages AS outage
            WHERE outage.adapter = reply.adapter AND outage.scope IN ('', reply.server) AND outage.is_down
        ) AS has_to_wait) AS line
        RETURNING id, outbox.status = 'claimed' INTO reply_id, is_claimed;
    END IF;
    IF p_question IS NOT NULL THEN
        INSERT INTO public.confirmations (id, user_id, conversation_id, turn_id, call_id, tool, arguments,
                                          arguments_hash, question, reason, agent, approver_level)
        SELECT asked.id, v_turn.user_id, v_turn.conversation_id, p_turn_id, asked.call_id, asked.tool, asked.arguments,
               asked.arguments_hash, asked.question, asked.reason, asked.agent, asked.approver_level
        FROM jsonb_to_record(p_question) AS asked
            (id bigint, call_id text, tool text, arguments text, arguments_hash text, question text, reason text,
             agent text, approver_level text);
    END IF;
    -- The inbox knows no refusal: a refused message has its answer.
    UPDATE public.inbox SET status = CASE p_status WHEN 'refused' THEN 'answered' ELSE p_status END
    WHERE inbox.turn_id = p_turn_id AND inbox.status = 'claimed';
    -- Last, so that the person's other turns wait for this one as briefly as can be.
    PERFORM public.parley_charge(
        ROW(v_turn.user_id, v_turn.conversation_id, v_turn.persona_id, p_turn_id, false), p_calls
    );
    IF p_note <> '' THEN
        PERFORM pg_notify('parley_turns', p_note);
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_close_turn IS
    'Ends a turn: last step, payment, reply, and the end of its messages, all or nothing.';
