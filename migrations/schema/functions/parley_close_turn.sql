-- Ends a turn: records its last step and events, pays for its last model calls, gives back what it holds, stores the
-- reply, and marks its messages as answered. Returns no row, and changes nothing, when another attempt runs the turn.
--
-- p_reply: as for `parley_add_reply`; NULL for the turn of an agent, whose answer is read by the turn that asked it.
-- p_question: as for `parley_ask`, the question with which the turn ends, if it ends with one. It is made here, together with
-- the reply: nobody can agree to what was not shown. It is closed at once where a message of the turn was edited or deleted
-- meanwhile. p_job_id: the job that ends with the turn, if any; `has_next` tells whether the place's next turn waits.
CREATE FUNCTION public.parley_close_turn(
    p_turn_id bigint, p_attempt int, p_status text, p_finished boolean, p_waves int, p_error text, p_cause text,
    p_steps jsonb, p_events jsonb, p_calls jsonb, p_reply jsonb, p_question jsonb DEFAULT NULL,
    p_job_id bigint DEFAULT NULL
)
RETURNS TABLE (reply_id bigint, live_message_id text, is_claimed boolean, has_next boolean)
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
        SELECT reply.reply_id, reply.is_claimed INTO reply_id, is_claimed
        FROM public.parley_add_reply(p_turn_id, p_reply, v_turn.live_message_id) AS reply;
    END IF;
    IF p_question IS NOT NULL THEN
        PERFORM public.parley_ask(v_turn.user_id, v_turn.conversation_id, p_turn_id, p_question);
    END IF;
    -- The inbox knows no refusal: a refused message has its answer.
    UPDATE public.inbox SET status = CASE p_status WHEN 'refused' THEN 'answered' ELSE p_status END
    WHERE inbox.turn_id = p_turn_id AND inbox.status = 'claimed';
    -- Behind the lock of the messages: whoever changes one later finds the question.
    IF p_question IS NOT NULL AND EXISTS (
        SELECT FROM public.inbox JOIN public.turns ON turns.id = inbox.turn_id
        WHERE inbox.turn_id = p_turn_id AND (inbox.content = '[deleted]' OR inbox.edited_at >= turns.started_at)
    ) THEN
        PERFORM public.parley_withdraw_questions(ARRAY[p_turn_id]);
    END IF;
    -- Late, so that the person's other turns wait for this one as briefly as can be.
    PERFORM public.parley_charge(
        ROW(v_turn.user_id, v_turn.conversation_id, v_turn.persona_id, p_turn_id, false), p_calls
    );
    -- Behind the limits: who changes those locks the job of the person's place after them, to tell the person.
    has_next := public.parley_end_job(p_job_id);
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_close_turn IS
    'Ends a turn: last step, payment, reply, and the end of its messages, all or nothing.';
