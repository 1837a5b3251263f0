-- Branches of chats: what was said in place of something else. Turns follow each other in the order of their ids, except
-- where a row here says what a turn follows; the row with the highest id is the branch that is chosen, and goes on.

CREATE TABLE turn_branches (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    first_turn_id bigint NOT NULL,
    follows_turn_id bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_turn_branches PRIMARY KEY (conversation_id, first_turn_id),
    CONSTRAINT turn_branches_follows_turn_id_is_before CHECK (follows_turn_id BETWEEN 0 AND first_turn_id - 1)
);
COMMENT ON TABLE turn_branches IS
    'Where a chat of the page goes on behind an earlier turn: a message was said otherwise, an answer asked for again, or an '
    'earlier branch chosen. Without a row a turn follows the one before it.';
COMMENT ON COLUMN turn_branches.conversation_id IS 'The chat.';
COMMENT ON COLUMN turn_branches.first_turn_id IS
    'From this id on, up to the next row, turns follow each other. A turn of just this id need not be there.';
COMMENT ON COLUMN turn_branches.follows_turn_id IS 'The turn that they follow; 0: they begin the chat.';
COMMENT ON COLUMN turn_branches.created_at IS 'When the row was made.';
REVOKE INSERT, UPDATE, DELETE ON turn_branches FROM parley_admin;

-- The ids from the beginning of the chat to a turn, on the way that leads to it.
CREATE FUNCTION public.parley_branch_path(p_conversation_id bigint, p_turn_id bigint) RETURNS int8multirange
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_path int8multirange := '{}';
    v_last bigint := p_turn_id;
    v_branch record;
BEGIN
    LOOP
        SELECT first_turn_id, follows_turn_id INTO v_branch FROM public.turn_branches
        WHERE conversation_id = p_conversation_id AND first_turn_id <= v_last ORDER BY first_turn_id DESC LIMIT 1;
        v_path := v_path + int8multirange(int8range(coalesce(v_branch.first_turn_id, 0), v_last, '[]'));
        v_last := coalesce(v_branch.follows_turn_id, 0);
        EXIT WHEN v_last = 0;
    END LOOP;
    RETURN v_path;
END
$$;
COMMENT ON FUNCTION public.parley_branch_path IS 'The ids from the beginning of a chat to one of its turns.';

-- Lets the chat go on behind this turn (0: from its beginning), whose way p_path is.
CREATE FUNCTION public.parley_go_on_behind(p_conversation_id bigint, p_turn_id bigint, p_path int8multirange) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_next bigint := 1 + (SELECT max(id) FROM public.turns WHERE conversation_id = p_conversation_id);
BEGIN
    INSERT INTO public.turn_branches (conversation_id, first_turn_id, follows_turn_id)
    VALUES (p_conversation_id, v_next, p_turn_id)
    ON CONFLICT ON CONSTRAINT pk_turn_branches DO UPDATE SET follows_turn_id = excluded.follows_turn_id;
    PERFORM public.parley_show_turns(p_conversation_id, p_path + int8multirange(int8range(v_next, NULL)));
END
$$;
COMMENT ON FUNCTION public.parley_go_on_behind IS 'Lets a chat go on behind one of its turns.';

-- Finds the chat in which a branch is begun or chosen, and keeps others from saying something there meanwhile. No row: the turn
-- is none of this chat, or of a job that was due. `is_busy`: a message is open there.
CREATE FUNCTION public.parley_lock_chat(p_channel text, p_place_key text, p_turn_id bigint)
RETURNS TABLE (conversation_id bigint, is_busy boolean)
LANGUAGE plpgsql AS $$
BEGIN
    -- As parley_accept does.
    PERFORM pg_advisory_xact_lock(hashtextextended('inbox ' || p_place_key, 0));
    RETURN QUERY
    SELECT c.id, EXISTS (
        SELECT FROM public.inbox AS m WHERE m.place_key = p_place_key AND m.status IN ('waiting', 'claimed')
    )
    FROM public.turns AS t JOIN public.conversations AS c ON c.id = t.conversation_id
    WHERE t.id = p_turn_id AND t.parent_turn_id IS NULL AND c.platform = 'web' AND c.platform_server_id IS NULL
      AND c.platform_channel_id = p_channel AND c.platform_thread_id IS NULL
      AND NOT EXISTS (SELECT FROM public.inbox AS m WHERE m.turn_id = t.id AND m.due_job IS NOT NULL);
END
$$;
COMMENT ON FUNCTION public.parley_lock_chat IS 'Finds the chat of a turn, and keeps others from saying something there meanwhile.';

-- Begins a branch in place of a turn: what is said next in the chat follows what was said before that turn. Answers `begun`, with
-- the turn's message and the turn that has its files; `known` when the event was accepted before, `busy`, and `missing`.
CREATE FUNCTION public.parley_begin_branch(p_channel text, p_place_key text, p_event_id text, p_turn_id bigint)
RETURNS TABLE (outcome text, content text, again_of bigint)
LANGUAGE plpgsql AS $$
DECLARE
    v_chat record;
    v_before int8multirange;
BEGIN
    SELECT * INTO v_chat FROM public.parley_lock_chat(p_channel, p_place_key, p_turn_id);
    outcome := CASE
        WHEN EXISTS (
            SELECT FROM public.inbox AS m
            WHERE m.platform = 'web' AND m.platform_event_id = p_event_id AND m.place_key = p_place_key
        ) THEN 'known'
        WHEN v_chat.conversation_id IS NULL THEN 'missing'
        WHEN v_chat.is_busy THEN 'busy' ELSE 'begun'
    END;
    IF outcome = 'begun' THEN
        SELECT m.content INTO content FROM public.messages AS m WHERE m.turn_id = p_turn_id AND m.seq = 0;
        again_of := coalesce((
            SELECT m.again_of FROM public.inbox AS m WHERE m.turn_id = p_turn_id ORDER BY m.again_of LIMIT 1
        ), p_turn_id);
        v_before := public.parley_branch_path(v_chat.conversation_id, p_turn_id)
            * int8multirange(int8range(0, p_turn_id));
        PERFORM public.parley_go_on_behind(v_chat.conversation_id, coalesce((
            SELECT max(t.id) FROM public.turns AS t
            WHERE t.conversation_id = v_chat.conversation_id AND t.parent_turn_id IS NULL AND t.id <@ v_before
        ), 0), v_before);
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION public.parley_begin_branch IS 'Lets a chat go on in place of one of its turns.';

-- Chooses the branch of a turn, with what was said behind it last. Answers `shown`, `busy` or `missing`.
CREATE FUNCTION public.parley_show_branch(p_channel text, p_place_key text, p_turn_id bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_chat record;
    v_branch record;
    v_behind int8multirange := '{}';
    v_last bigint;
BEGIN
    SELECT * INTO v_chat FROM public.parley_lock_chat(p_channel, p_place_key, p_turn_id);
    IF v_chat.conversation_id IS NULL OR v_chat.is_busy THEN
        RETURN CASE WHEN v_chat.is_busy THEN 'busy' ELSE 'missing' END;
    END IF;
    FOR v_branch IN
        SELECT first_turn_id, follows_turn_id, lead(first_turn_id) OVER (ORDER BY first_turn_id) AS next FROM (
            SELECT first_turn_id, follows_turn_id FROM public.turn_branches
            WHERE turn_branches.conversation_id = v_chat.conversation_id
            UNION ALL SELECT 0, 0
        ) AS branches ORDER BY first_turn_id
    LOOP
        IF p_turn_id <@ int8range(v_branch.first_turn_id, v_branch.next) THEN
            v_behind := int8multirange(int8range(p_turn_id, v_branch.next));
        ELSIF v_branch.follows_turn_id <@ v_behind THEN
            v_behind := v_behind + int8multirange(int8range(v_branch.first_turn_id, v_branch.next));
        END IF;
    END LOOP;
    SELECT max(t.id) INTO v_last FROM public.turns AS t
    WHERE t.conversation_id = v_chat.conversation_id AND t.parent_turn_id IS NULL AND t.id <@ v_behind;
    PERFORM public.parley_go_on_behind(
        v_chat.conversation_id, v_last, public.parley_branch_path(v_chat.conversation_id, v_last)
    );
    RETURN 'shown';
END
$$;
COMMENT ON FUNCTION public.parley_show_branch IS 'Chooses the branch of a turn in a chat of the page.';

-- Of those turns of a chat that stand in place of each other: which of how many each is, and its neighbours.
CREATE FUNCTION public.parley_list_branches(p_conversation_id bigint, p_turn_ids bigint[])
RETURNS TABLE (turn_id bigint, place bigint, total bigint, previous_id bigint, next_id bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH own AS (
        SELECT t.id, branch.first_turn_id, branch.follows_turn_id,
               lag(t.id) OVER (PARTITION BY branch.first_turn_id ORDER BY t.id) AS before_id
        FROM public.turns AS t LEFT JOIN LATERAL (
            SELECT b.first_turn_id, b.follows_turn_id FROM public.turn_branches AS b
            WHERE b.conversation_id = p_conversation_id AND b.first_turn_id <= t.id
            ORDER BY b.first_turn_id DESC LIMIT 1
        ) AS branch ON true
        WHERE t.conversation_id = p_conversation_id AND t.parent_turn_id IS NULL
    ), counted AS (
        SELECT own.id, row_number() OVER same AS place, count(*) OVER (PARTITION BY coalesce(before_id, follows_turn_id, 0)) AS total,
               lag(own.id) OVER same AS previous_id, lead(own.id) OVER same AS next_id
        FROM own WINDOW same AS (PARTITION BY coalesce(before_id, follows_turn_id, 0) ORDER BY own.id)
    )
    SELECT counted.id, counted.place, counted.total, counted.previous_id, counted.next_id
    FROM counted WHERE counted.total > 1 AND counted.id = ANY (p_turn_ids);
END;
COMMENT ON FUNCTION public.parley_list_branches IS
    'Of turns of a chat that stand in place of each other: which of how many each is, and its neighbours.';

REVOKE EXECUTE ON FUNCTION public.parley_branch_path, public.parley_go_on_behind, public.parley_lock_chat,
    public.parley_begin_branch, public.parley_show_branch, public.parley_list_branches FROM PUBLIC, parley_admin;

INSERT INTO folder_tables (name) VALUES ('turn_branches');
