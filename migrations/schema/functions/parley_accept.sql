-- Stores events once each, and makes sure that they will be answered: the only way into the inbox. Tells of each event, in
-- the order of the array, the id of its row, whether this call has stored it, and whether the row is of the same person and
-- place: nobody gets the answer to another person's message by using its event id again. No id: the server lives in another cell
-- (parley_refuse_moved), and nothing is stored.
--
-- p_events: an array of {adapter, platform, event_id, place_key, server, channel, thread, is_direct, user_id, username,
-- message_id, content, attachments, wants_stream, platform_context, sent_at, decision, replied_to, due_job, credentials,
-- request, again_of, is_answered}; `is_answered` ones need no turn. p_is_announced: the caller tells a worker, after its
-- commit; otherwise all are told with it.
--
-- The messages of one place are stored one after the other, because those with an equal or no time of their own are
-- answered in the order of their ids: without the lock, a later id could be committed, and answered, first. The places
-- are taken in a fixed order, so that two processes that store the same events can't deadlock.
CREATE FUNCTION public.parley_accept(p_events jsonb, p_is_announced boolean DEFAULT false)
RETURNS TABLE (inbox_id bigint, is_new boolean, is_same_sender boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_new bigint[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('inbox ' || places.place_key, 0)) FROM (
        SELECT DISTINCT event ->> 'place_key' AS place_key FROM jsonb_array_elements(p_events) AS event
        WHERE event -> 'is_answered' IS DISTINCT FROM 'true'
        ORDER BY 1
    ) AS places;
    WITH stored AS (
        INSERT INTO public.inbox (
            adapter, platform, platform_event_id, place_key, platform_server_id, platform_channel_id,
            platform_thread_id, is_direct, platform_user_id, platform_username, platform_message_id, content,
            attachments, wants_stream, platform_context, sent_at, decision, replied_to, due_job, credentials, request,
            again_of, status
        )
        SELECT adapter, platform, event_id, place_key, server, channel, thread, is_direct, user_id, username,
               message_id, content, attachments, wants_stream, platform_context,
               coalesce(sent_at, clock_timestamp()), decision, replied_to, due_job, credentials, request, again_of,
               CASE WHEN is_answered THEN 'answered' ELSE 'waiting' END
        FROM (
            -- Of equal events the first one is stored, wherever their places stand in the order.
            SELECT DISTINCT ON (platform, event_id) *
            FROM ROWS FROM (jsonb_to_recordset(p_events) AS (
                adapter text, platform text, event_id text, place_key text, server text, channel text, thread text,
                is_direct boolean, user_id text, username text, message_id text, content text, attachments jsonb,
                wants_stream boolean, platform_context jsonb, sent_at timestamptz, decision jsonb, replied_to text,
                due_job jsonb, credentials jsonb, request jsonb, again_of bigint, is_answered boolean
            )) WITH ORDINALITY
            ORDER BY platform, event_id, ordinality
        ) AS event
        ORDER BY place_key, ordinality
        ON CONFLICT (platform, platform_event_id) DO NOTHING
        RETURNING id
    )
    SELECT array_agg(id) INTO v_new FROM stored;
    IF v_new IS NOT NULL THEN
        PERFORM public.parley_queue_turn(stored.id),
                CASE WHEN stored.due_job IS NOT NULL THEN pg_notify('parley_due', stored.place_key) END
        FROM (
            SELECT id, place_key, due_job FROM public.inbox WHERE id = ANY (v_new) AND status = 'waiting'
            ORDER BY place_key, id
        ) AS stored;
        IF NOT p_is_announced THEN
            PERFORM pg_notify('parley_jobs', '');
        END IF;
    END IF;
    -- One message that is new: all that is asked below is known.
    IF v_new IS NOT NULL AND jsonb_array_length(p_events) = 1 THEN
        inbox_id := v_new[1];
        is_new := true;
        is_same_sender := true;
        RETURN NEXT;
        RETURN;
    END IF;
    -- Who stored an event before may not have flushed it yet (`parley_accept_and_take`): a commit that writes something does.
    IF v_new IS NULL OR cardinality(v_new) < jsonb_array_length(p_events) THEN
        PERFORM pg_logical_emit_message(true, 'parley', '');
    END IF;
    RETURN QUERY
    SELECT known.id,
           known.is_same AND coalesce(known.id = ANY (v_new), false)
           AND row_number() OVER (PARTITION BY known.id, known.is_same ORDER BY known.ordinality) = 1,
           known.is_same
    FROM (
        SELECT inbox.id, event.ordinality,
               (inbox.place_key, inbox.platform_user_id) = (event.place_key, event.user_id) AS is_same
        FROM ROWS FROM (jsonb_to_recordset(p_events) AS (
            platform text, event_id text, place_key text, user_id text
        )) WITH ORDINALITY AS event (platform, event_id, place_key, user_id, ordinality)
        LEFT JOIN public.inbox ON inbox.platform = event.platform AND inbox.platform_event_id = event.event_id
    ) AS known
    ORDER BY known.ordinality;
END
$$;
COMMENT ON FUNCTION public.parley_accept IS 'Stores events once each in the inbox, and makes sure that they will be answered.';
