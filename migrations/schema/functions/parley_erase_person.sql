-- Erases a person: what they wrote and what was answered to it, their memories with words and vectors, their accounts on
-- platforms. Summaries that were made of their messages are withdrawn and written again. The ledger keeps its numbers
-- without the person. Content in storage is deleted before: returns false, and changes nothing, while a file is left, or when
-- something of the person has come in meanwhile; whoever calls it tries again.
--
-- Order of locks, as whoever works for this person takes them: messages that wait, turns, their messages, conversations, scopes of
-- memories, memories, and the person last.
--
-- Runs with the rights of its owner: memories are hidden from everybody else.
CREATE FUNCTION public.parley_erase_person(p_erasure_id bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_user_id bigint;
    v_memory_ids bigint[];
    v_turn_ids bigint[];
    v_inbox_ids bigint[];
    v_accounts bigint;
    v_memories bigint;
    v_messages bigint;
    v_received bigint;
    v_held public.budget_reservations[];
    v_function regproc;
BEGIN
    SELECT e.user_id INTO v_user_id FROM public.erasures AS e
    WHERE e.id = p_erasure_id AND e.finished_at IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    PERFORM FROM public.inbox AS m JOIN public.user_platform_links AS l USING (platform, platform_user_id)
    WHERE l.user_id = v_user_id AND hashtext(m.platform_user_id) = hashtext(l.platform_user_id)
        AND m.status = 'waiting' ORDER BY m.id FOR UPDATE OF m;
    v_turn_ids := ARRAY(SELECT t.id FROM public.turns AS t WHERE t.user_id = v_user_id ORDER BY t.id FOR UPDATE);
    -- An account may have been linked to another person since: what it wrote in turns of this one goes, too.
    -- Each half has its index; with OR the whole inbox would be read.
    v_inbox_ids := ARRAY(
        SELECT m.id FROM public.inbox AS m WHERE m.id IN (
            SELECT own.id FROM public.inbox AS own WHERE own.turn_id = ANY (v_turn_ids)
            UNION
            SELECT own.id FROM public.inbox AS own JOIN public.user_platform_links AS l USING (platform, platform_user_id)
            WHERE l.user_id = v_user_id AND hashtext(own.platform_user_id) = hashtext(l.platform_user_id)
        ) ORDER BY m.id FOR UPDATE
    );
    PERFORM FROM public.conversations AS c
    WHERE c.id IN (SELECT t.conversation_id FROM public.turns AS t WHERE t.id = ANY (v_turn_ids))
        OR c.is_direct AND c.user_id = v_user_id
    ORDER BY c.id FOR UPDATE;
    v_memory_ids := ARRAY(SELECT m.id FROM public.memories AS m WHERE m.user_id = v_user_id);
    PERFORM public.parley_lock_memories(v_memory_ids);
    -- Whoever inserts a row of this person waits for this lock, and then finds nobody.
    PERFORM FROM public.users WHERE id = v_user_id FOR UPDATE;
    IF EXISTS (SELECT FROM public.file_records AS f WHERE f.user_id = v_user_id)
       OR EXISTS (SELECT FROM public.memories AS m WHERE m.user_id = v_user_id AND m.id NOT IN (SELECT unnest(v_memory_ids)))
       OR EXISTS (SELECT FROM public.turns AS t WHERE t.user_id = v_user_id AND t.id NOT IN (SELECT unnest(v_turn_ids)))
       OR EXISTS (
           SELECT FROM public.inbox AS m JOIN public.user_platform_links AS l USING (platform, platform_user_id)
           WHERE l.user_id = v_user_id AND hashtext(m.platform_user_id) = hashtext(l.platform_user_id)
             AND m.id NOT IN (SELECT unnest(v_inbox_ids))
       ) THEN
        RETURN false;
    END IF;
    WITH held AS (DELETE FROM public.budget_reservations AS r WHERE r.user_id = v_user_id RETURNING r)
    SELECT array_agg(held.r) INTO v_held FROM held;
    PERFORM public.parley_forget_summaries(v_turn_ids);
    DELETE FROM public.memories WHERE id = ANY (v_memory_ids);
    GET DIAGNOSTICS v_memories = ROW_COUNT;
    DELETE FROM public.outbox WHERE turn_id = ANY (v_turn_ids);
    -- Messages for which no turn began were answered, too.
    DELETE FROM public.outbox USING public.inbox, public.user_platform_links AS l
    WHERE outbox.turn_id IS NULL AND outbox.platform = inbox.platform
      AND outbox.reply_to = coalesce(inbox.platform_message_id, inbox.platform_event_id)
      AND l.user_id = v_user_id AND inbox.platform = l.platform AND inbox.platform_user_id = l.platform_user_id
      AND hashtext(inbox.platform_user_id) = hashtext(l.platform_user_id);
    -- Answers to commands of this person alone name the account.
    DELETE FROM public.outbox USING public.user_platform_links AS l
    WHERE outbox.turn_id IS NULL AND l.user_id = v_user_id AND outbox.platform = l.platform
      AND starts_with(outbox.reply_to, 'direct:' || l.platform_user_id || ' ');
    -- Whoever waits for an answer is told, and what runs ends: both find nothing any more.
    PERFORM pg_notify('parley_turns', jsonb_build_object('inbox', jsonb_build_array(m.id), 'end', true)::text)
    FROM public.inbox AS m
    WHERE m.id = ANY (v_inbox_ids) AND m.status IN ('waiting', 'claimed');
    PERFORM pg_notify('parley_stops', t.id::text) FROM public.turns AS t
    WHERE t.id = ANY (v_turn_ids) AND t.status = 'running';
    DELETE FROM public.inbox WHERE id = ANY (v_inbox_ids);
    GET DIAGNOSTICS v_received = ROW_COUNT;
    -- May quote this person; its command is told to try again.
    DELETE FROM public.dry_runs;
    -- Platforms and modules erase what no foreign key leads to.
    FOR v_function IN
        SELECT p.oid::regproc FROM pg_proc AS p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proowner = current_user::regrole
              AND p.proname LIKE 'parley\_erase\_in\_%'
    LOOP
        EXECUTE format('SELECT %s($1)', v_function) USING v_user_id;
    END LOOP;
    SELECT count(*) INTO v_messages FROM public.messages AS m WHERE m.turn_id = ANY (v_turn_ids) OR m.user_id = v_user_id;
    DELETE FROM public.messages WHERE user_id = v_user_id;
    DELETE FROM public.turns WHERE id = ANY (v_turn_ids);
    DELETE FROM public.conversations AS c
    WHERE c.is_direct AND c.user_id = v_user_id AND NOT EXISTS (SELECT FROM public.turns AS t WHERE t.conversation_id = c.id);
    SELECT count(*) INTO v_accounts FROM public.user_platform_links AS l WHERE l.user_id = v_user_id;
    DELETE FROM public.users WHERE id = v_user_id;
    -- What the person's calls held of limits that others share: last, so that those wait as briefly as can be.
    PERFORM public.parley_lock_limits(
        NULL, ARRAY(SELECT r.server_id FROM unnest(v_held) AS r),
        ARRAY(SELECT b FROM unnest(v_held) AS r CROSS JOIN LATERAL unnest(r.budget_ids) AS b)
    );
    PERFORM public.parley_add_to_limits(ROW(NULL, r.server_id, r.budget_ids), 0, 0, -r.tokens, -coalesce(r.cost, 0))
    FROM unnest(v_held) AS r;
    UPDATE public.erasures SET finished_at = now(), erased = erased || jsonb_build_object(
        'accounts', v_accounts, 'memories', v_memories, 'messages', v_messages, 'received', v_received,
        'turns', cardinality(v_turn_ids)
    )
    WHERE id = p_erasure_id;
    RETURN true;
END
$$;
COMMENT ON FUNCTION public.parley_erase_person IS
    'Erases a person with all rows of theirs; false while content of their files is left, or when something has come in meanwhile.';
REVOKE EXECUTE ON FUNCTION public.parley_erase_person FROM parley_admin;
