-- Stores a batch of memories with their words, and returns for each row its number in the batch, the memory's id and
-- whether it is new: for a text that is stored already it is the id of that memory, and NULL for a fact of a person who has
-- p_capacity of them.
--
-- A message of a conversation (source 'turn') gets the ordinal after the last one of its conversation and scope, so that
-- its neighbours are found by arithmetic; facts get ordinals that have no neighbours, above those of all conversations.
--
-- Runs with the rights of its owner: a batch has memories of many persons, of whom a turn may see one.
CREATE FUNCTION public.parley_add_memories(p_rows jsonb, p_capacity integer)
RETURNS TABLE (n integer, memory_id bigint, is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    v_scopes bigint[];
BEGIN
    -- Before the scopes, as whoever erases a person or a chat: the new rows name these.
    PERFORM FROM public.turns AS t
    WHERE t.id IN (SELECT r.turn_id FROM jsonb_to_recordset(p_rows) AS r (turn_id bigint)) ORDER BY t.id FOR KEY SHARE;
    PERFORM FROM public.conversations AS c
    WHERE c.id IN (SELECT r.conversation_id FROM jsonb_to_recordset(p_rows) AS r (conversation_id bigint))
    ORDER BY c.id FOR KEY SHARE;
    -- Who has no memories yet is marked by a trigger. Whoever pays for a fact holds the person before the scope: in the
    -- same order here, so that the two can't wait for each other.
    PERFORM FROM public.users AS u
    WHERE NOT u.has_memories AND u.id IN (SELECT r.user_id FROM jsonb_to_recordset(p_rows) AS r (user_id bigint))
    ORDER BY u.id FOR NO KEY UPDATE;
    SELECT array_agg(public.parley_memory_scope(r.scope, r.user_id, r.platform, r.server, r.channel, r.thread) ORDER BY r.n)
    INTO v_scopes
    FROM jsonb_to_recordset(p_rows) AS r
        (n integer, scope text, user_id bigint, platform text, server text, channel text, thread text);
    -- Two batches for one scope must not give the same ordinals. In order of ids, so that they can't wait for each other.
    PERFORM FROM public.memory_scopes AS s WHERE s.id = ANY (v_scopes) ORDER BY s.id FOR UPDATE;
    RETURN QUERY
    WITH given AS MATERIALIZED (
        SELECT r.*, v_scopes[r.n] AS scope_id, nextval(pg_get_serial_sequence('public.memories', 'id')) AS id,
               r.source = 'turn' AND r.conversation_id IS NOT NULL AS is_turn,
               (r.conversation_id & 1073741823) << 31 AS first_ordinal
        FROM jsonb_to_recordset(p_rows) AS r
            (n integer, user_id bigint, scope text, platform text, server text, channel text, conversation_id bigint,
             turn_id bigint, message_id text, said_at timestamptz, speaker text, content text, content_key text,
             source text, author text, is_from_bot boolean, confidence real, length integer, words jsonb)
    ), last AS MATERIALIZED (
        SELECT g.scope_id, g.first_ordinal, l.id, l.ordinal, l.turn_length, l.window_length
        FROM (SELECT DISTINCT scope_id, first_ordinal FROM given WHERE is_turn) AS g
        CROSS JOIN LATERAL (
            SELECT m.id, m.ordinal, m.turn_length, m.window_length FROM public.memories AS m
            WHERE m.scope_id = g.scope_id AND m.ordinal >= g.first_ordinal AND m.ordinal < g.first_ordinal + 2147483648
            ORDER BY m.ordinal DESC LIMIT 1
        ) AS l
    ), facts AS (
        SELECT g.n, row_number() OVER (PARTITION BY g.user_id ORDER BY g.n) + (
            SELECT count(*) FROM public.memories AS m WHERE m.user_id = g.user_id AND m.source <> 'turn'
        ) AS place
        FROM given AS g WHERE g.source <> 'turn'
    ), numbered AS MATERIALIZED (
        SELECT g.*, f.place,
               CASE WHEN g.is_turn
                    THEN coalesce(l.ordinal, g.first_ordinal) + row_number() OVER conversation
                    ELSE 4611686018427387904 + 2 * g.id END AS ordinal,
               CASE WHEN g.is_turn THEN coalesce(lag(g.length) OVER conversation, l.turn_length) END AS before,
               CASE WHEN g.is_turn THEN lead(g.length) OVER conversation END AS after,
               min(g.id) OVER (PARTITION BY g.scope_id, g.user_id, g.content_key) AS first_id
        FROM given AS g
        LEFT JOIN last AS l ON g.is_turn AND l.scope_id = g.scope_id AND l.first_ordinal = g.first_ordinal
        LEFT JOIN facts AS f ON f.n = g.n
        WINDOW conversation AS (PARTITION BY g.scope_id, g.first_ordinal, g.is_turn ORDER BY g.n)
    ), inserted AS (
        INSERT INTO public.memories AS m
            (id, user_id, scope, scope_id, ordinal, is_indexed, platform, platform_server_id, conversation_id, turn_id,
             platform_message_id, said_at, speaker, content, content_key, source, author, is_from_bot, confidence,
             turn_length, window_length)
        SELECT id, user_id, scope, scope_id, ordinal, true, platform,
               CASE WHEN scope IN ('server', 'conversation') THEN coalesce(server, channel) END, conversation_id, turn_id,
               message_id, coalesce(said_at, now()), speaker, content, content_key, source, coalesce(author, 'person'),
               coalesce(is_from_bot, false), confidence, length, CASE WHEN before IS NOT NULL OR after IS NOT NULL
                                        THEN length + coalesce(before, 0) + coalesce(after, 0) END
        FROM numbered WHERE place IS NULL OR place <= p_capacity
        ORDER BY n
        ON CONFLICT DO NOTHING
        RETURNING m.id, m.scope_id, m.ordinal, m.said_at, m.turn_length
    ), words AS (
        INSERT INTO public.memory_words (scope_id, term, ordinal, memory_id, tf, length, said_at)
        SELECT i.scope_id, coalesce((ts_lexize('english_stem', w.key))[1], w.key) AS term, i.ordinal, i.id,
               sum(w.value::integer), i.turn_length, i.said_at
        FROM inserted AS i JOIN numbered AS g ON g.id = i.id CROSS JOIN jsonb_each_text(g.words) AS w
        GROUP BY i.scope_id, term, i.ordinal, i.id, i.turn_length, i.said_at
    ), counted AS (
        UPDATE public.memory_scopes AS s SET memories = s.memories + c.memories, words = s.words + c.words
        FROM (SELECT scope_id, count(*) AS memories, sum(turn_length) AS words FROM inserted GROUP BY scope_id) AS c
        WHERE s.id = c.scope_id
    ), widened AS (
        -- The window of what was the last message of a conversation now has one message more.
        UPDATE public.memories AS m
        SET window_length = coalesce(l.window_length, l.turn_length) + g.length, vector_model = NULL,
            vectors_due_at = now() + interval '10 seconds'
        FROM last AS l JOIN numbered AS g
            ON g.is_turn AND g.scope_id = l.scope_id AND g.first_ordinal = l.first_ordinal AND g.ordinal = l.ordinal + 1
        WHERE m.id = l.id
    )
    SELECT g.n, coalesce(i.id, same.id, first.id), i.id IS NOT NULL
    FROM numbered AS g
    LEFT JOIN inserted AS i ON i.id = g.id
    LEFT JOIN inserted AS first ON first.id = g.first_id AND g.content_key IS NOT NULL
    LEFT JOIN LATERAL (
        SELECT m.id FROM public.memories AS m
        WHERE m.scope_id = g.scope_id AND m.user_id = g.user_id AND m.content_key = g.content_key
              AND m.superseded_by IS NULL
    ) AS same ON i.id IS NULL
    ORDER BY g.n;
END
$$;
COMMENT ON FUNCTION public.parley_add_memories IS 'Adds memories with their words, and returns which of them are new.';
REVOKE EXECUTE ON FUNCTION public.parley_add_memories FROM parley_admin;
