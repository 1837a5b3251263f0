-- Begins a turn: takes its waiting messages, makes its row, records its first steps and events, and reserves tokens for
-- its first model call. Returns no row, and changes nothing, when one of the messages has been withdrawn or edited, or the
-- job given to another worker, since they were read. p_changed_at: when each was stored, or edited last, in the order of
-- their ids. So an id that a crash of the server has given to another message begins nothing.
--
-- Its commit is durable, because a turn's id names its answer, events and calls from here on. If a crash of the
-- server took the turn back, the sequence would give the same id to another person's message. It flushes the messages, too,
-- that the worker's own process has stored but told nobody of (`parley_accept_and_take`).
CREATE FUNCTION public.parley_open_turn(
    p_job_id bigint, p_inbox_ids bigint[], p_turn_id bigint, p_conversation_id bigint, p_user_id bigint,
    p_persona_id bigint, p_loop_mode text, p_steps jsonb, p_events jsonb,
    p_tokens bigint, p_cost numeric, p_seconds double precision, p_persona_version_id bigint,
    p_changed_at timestamptz[]
)
RETURNS TABLE (
    admitted boolean, refusal jsonb, reservation_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_changed_at timestamptz[];
    v_charged record;
BEGIN
    -- Without the look at the job, a worker that was frozen would take the turn back from the one that goes on with it.
    SELECT array_agg(coalesce(edited_at, created_at) ORDER BY id) INTO v_changed_at FROM (
        SELECT inbox.id, inbox.edited_at, inbox.created_at FROM public.inbox
        WHERE inbox.id = ANY(p_inbox_ids) AND inbox.status = 'waiting'
          AND EXISTS (SELECT FROM public.jobs WHERE jobs.id = p_job_id)
        FOR UPDATE OF inbox
    ) AS waiting;
    IF v_changed_at IS DISTINCT FROM p_changed_at THEN
        RETURN;
    END IF;
    INSERT INTO public.turns (id, conversation_id, user_id, persona_id, persona_version_id, loop_mode)
    VALUES (p_turn_id, p_conversation_id, p_user_id, p_persona_id, p_persona_version_id, p_loop_mode);
    UPDATE public.inbox SET status = 'claimed', turn_id = p_turn_id WHERE inbox.id = ANY(p_inbox_ids);
    PERFORM public.parley_write_journal(p_turn_id, p_conversation_id, p_user_id, p_steps, p_events);
    v_charged := public.parley_charge(
        ROW(p_user_id, p_conversation_id, p_persona_id, p_turn_id, false), NULL, p_tokens, p_cost, p_seconds
    );
    admitted := v_charged.admitted;
    refusal := v_charged.refusal;
    reservation_id := v_charged.reservation_id;
    IF admitted IS NOT NULL THEN
        RETURN NEXT;
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_open_turn IS
    'Begins a turn from its waiting messages and reserves tokens for its first model call.';
