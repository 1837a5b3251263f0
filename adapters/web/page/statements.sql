-- name: list_chats
-- Own chats behind a cursor, the pinned ones first, then the latest; those with nothing but commands have no conversation.
-- `newest_title`: as `find_changes` counts them.
WITH own AS (
    SELECT platform_channel_id AS channel, conversations.id AS conversation_id, last_active_at FROM conversations
    WHERE platform = 'web' AND platform_server_id IS NULL AND platform_thread_id IS NULL
      AND platform_channel_id COLLATE "C" >= :first AND platform_channel_id COLLATE "C" < :behind
    UNION ALL
    SELECT platform_channel_id, NULL, max(created_at) FROM web_replies
    WHERE platform_channel_id COLLATE "C" >= :first AND platform_channel_id COLLATE "C" < :behind AND NOT EXISTS (
        SELECT FROM conversations AS place WHERE place.platform = 'web' AND place.platform_server_id IS NULL
            AND place.platform_thread_id IS NULL AND place.platform_channel_id = web_replies.platform_channel_id
    )
    GROUP BY platform_channel_id
), shown AS (
    SELECT own.*, web_chats.title, web_chats.pinned_at IS NOT NULL AS is_pinned
    FROM own LEFT JOIN web_chats ON web_chats.platform_channel_id = own.channel
    WHERE CAST(:before_channel AS text) IS NULL OR (web_chats.pinned_at IS NOT NULL, own.last_active_at, own.channel)
        < (CAST(:before_pinned AS boolean), CAST(:before_at AS timestamptz), CAST(:before_channel AS text))
    ORDER BY is_pinned DESC, last_active_at DESC, channel DESC LIMIT :limit
)
SELECT substr(channel, length(:first) + 1) AS chat, last_active_at, is_pinned, coalesce(
    title,
    (SELECT title FROM conversation_titles AS own WHERE own.conversation_id = shown.conversation_id),
    (SELECT content FROM messages WHERE messages.conversation_id = shown.conversation_id AND role = 'user'
     ORDER BY turn_id, seq LIMIT 1),
    (SELECT line FROM web_replies WHERE web_replies.platform_channel_id = shown.channel ORDER BY id LIMIT 1)
) AS title, (
    SELECT coalesce(floor(extract(epoch FROM max(titled_at)) * 1000000), 0)::bigint
    FROM user_platform_links AS link JOIN conversation_titles ON conversation_titles.user_id = link.user_id
    WHERE link.platform = 'web' AND link.platform_user_id = :who
) AS newest_title
FROM shown ORDER BY is_pinned DESC, last_active_at DESC, channel DESC;

-- name: find_chat
-- Whether there is such a chat, and whose user its person is.
SELECT link.user_id, (
    SELECT id FROM conversations WHERE platform = 'web' AND platform_server_id IS NULL AND platform_thread_id IS NULL
        AND platform_channel_id = :channel
) AS conversation_id, EXISTS (SELECT FROM web_replies WHERE platform_channel_id = :channel) AS has_replies
FROM user_platform_links AS link WHERE link.platform = 'web' AND link.platform_user_id = :who;

-- name: change_chat
-- NULL leaves a title, or whether it is pinned, as it is; an empty title takes the name away.
INSERT INTO web_chats AS chat (user_id, platform_channel_id, title, pinned_at)
VALUES (:user_id, :channel, nullif(:title, ''), CASE WHEN :is_pinned THEN now() END)
ON CONFLICT (platform_channel_id) DO UPDATE SET
    title = CASE WHEN CAST(:title AS text) IS NULL THEN chat.title ELSE excluded.title END,
    pinned_at = CASE WHEN CAST(:is_pinned AS boolean) IS NULL THEN chat.pinned_at
                     WHEN :is_pinned THEN coalesce(chat.pinned_at, now()) END;

-- name: list_files_of_chat
SELECT id, minio_key FROM file_records WHERE conversation_id = :conversation_id ORDER BY id LIMIT :limit;

-- name: erase_chat
SELECT parley_erase_web_chat(:user_id, :who, :channel, :place_key, CAST(:file_ids AS bigint[]));

-- name: search_messages
-- The newest messages of a person's chats in which all words occur, also where marks of Markdown divide them.
SELECT substr(place.platform_channel_id, length(:first) + 1) AS chat, message.turn_id, message.role = 'user' AS is_own,
       message.content, message.created_at
FROM conversations AS place CROSS JOIN LATERAL (
    SELECT turn_id, role, content, created_at FROM messages
    WHERE messages.conversation_id = place.id AND role IN ('user', 'assistant') AND content <> ''
      AND content ~* ALL (CASE role WHEN 'user' THEN CAST(:texts AS text[]) ELSE CAST(:answers AS text[]) END) AND turn_id <@ coalesce(place.shown_turns, '{(,)}')
    ORDER BY turn_id DESC, seq DESC LIMIT :per_chat
) AS message
WHERE place.platform = 'web' AND place.platform_server_id IS NULL AND place.platform_thread_id IS NULL
  AND place.platform_channel_id COLLATE "C" >= :first AND place.platform_channel_id COLLATE "C" < :behind
ORDER BY message.turn_id DESC LIMIT :limit;

-- name: find_user
SELECT user_id FROM user_platform_links WHERE platform = 'web' AND platform_user_id = :who;

-- name: find_recalled
-- Of these memories those that are of a person's chats, in their order.
SELECT substr(place.platform_channel_id, length(:first) + 1) AS chat, m.turn_id, NOT m.is_from_bot AS is_own, m.content,
       m.said_at AS created_at
FROM unnest(CAST(:ids AS bigint[])) WITH ORDINALITY AS recalled (id, position)
JOIN memories AS m USING (id) JOIN turns ON turns.id = m.turn_id
JOIN conversations AS place ON place.id = turns.conversation_id
WHERE place.platform = 'web' AND place.platform_server_id IS NULL AND place.platform_thread_id IS NULL
  AND place.platform_channel_id COLLATE "C" >= :first AND place.platform_channel_id COLLATE "C" < :behind
  AND m.turn_id <@ coalesce(place.shown_turns, '{(,)}')
ORDER BY recalled.position;

-- name: list_turns
-- The newest turns of a chat's branch before one, newest first, each with its steps.
WITH shown AS MATERIALIZED (
    SELECT turns.*, shown_turns IS NOT NULL AS has_branches FROM conversations
    JOIN turns ON turns.conversation_id = conversations.id
    WHERE platform = 'web' AND platform_server_id IS NULL AND platform_thread_id IS NULL
      AND platform_channel_id = :channel AND parent_turn_id IS NULL AND turns.id < :before
      AND turns.id <@ coalesce(shown_turns, '{(,)}')
    ORDER BY turns.id DESC LIMIT :limit
)
SELECT shown.id, shown.conversation_id, shown.has_branches, shown.status, shown.error, shown.model, shown.iterations, shown.finished, shown.started_at,
    (SELECT json_agg(json_build_array(seq, role, content, tool_call_id, tool_name, outcome, plan IS NOT NULL) ORDER BY seq)
     FROM messages WHERE messages.turn_id = shown.id) AS steps,
    (SELECT json_build_array(coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0))
     FROM token_logs WHERE token_logs.turn_id = shown.id) AS tokens,
    (SELECT choices FROM outbox WHERE outbox.turn_id = shown.id) AS choices,
    (SELECT json_build_object('name', name, 'picture', picture) FROM personas WHERE personas.id = shown.persona_id) AS persona,
    (SELECT json_build_object('score', score, 'comment', comment) FROM feedback
     WHERE feedback.turn_id = shown.id AND feedback.user_id = shown.user_id) AS feedback,
    (SELECT confirmations.id FROM confirmations WHERE confirmations.turn_id = shown.id) AS confirmation_id
FROM shown ORDER BY shown.id DESC;

-- name: list_branches
SELECT * FROM parley_list_branches(:conversation_id, CAST(:turn_ids AS bigint[]));

-- name: find_changes
-- Which branch of a chat is chosen: another one, another text. And which of the person's chats a model has named since
-- `after_title`, in microseconds since 1970, the newest last. `moment` is now.
SELECT coalesce((
    SELECT first_turn_id || '-' || follows_turn_id FROM turn_branches JOIN conversations ON conversations.id = conversation_id
    WHERE platform = 'web' AND platform_server_id IS NULL AND platform_thread_id IS NULL AND platform_channel_id = :channel
    ORDER BY first_turn_id DESC LIMIT 1
), '') AS branch, (
    SELECT json_agg(json_build_array(chat, title, floor(extract(epoch FROM titled_at) * 1000000)::bigint) ORDER BY titled_at)
    FROM (
        SELECT substr(place.platform_channel_id, length(:first) + 1) AS chat, coalesce(web_chats.title, own.title) AS title, titled_at
        FROM user_platform_links AS link JOIN conversation_titles AS own ON own.user_id = link.user_id
        JOIN conversations AS place ON place.id = own.conversation_id
        LEFT JOIN web_chats ON web_chats.platform_channel_id = place.platform_channel_id
        WHERE link.platform = 'web' AND link.platform_user_id = :who
          AND titled_at > CAST('epoch' AS timestamptz) + least(CAST(:after_title AS bigint), 9000000000000000) * interval '1 microsecond'
          AND starts_with(place.platform_channel_id, :first)
        ORDER BY titled_at DESC LIMIT 50
    ) AS named
) AS titles, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS moment;

-- name: list_answers
-- The last answers in a person's other chats since a moment, in microseconds since 1970, the newest last. No turn takes a day.
WITH cursor AS (
    SELECT CAST('epoch' AS timestamptz) + least(CAST(:after AS bigint), 9000000000000000) * interval '1 microsecond' AS after
), answered AS (
    SELECT place.platform_channel_id AS channel, turn.id, turn.finished_at
    FROM cursor CROSS JOIN conversations AS place CROSS JOIN LATERAL (
        SELECT id, finished_at FROM turns
        WHERE turns.conversation_id = place.id AND parent_turn_id IS NULL ORDER BY turns.id DESC LIMIT 3
    ) AS turn
    WHERE platform = 'web' AND platform_server_id IS NULL AND platform_thread_id IS NULL
      AND platform_channel_id COLLATE "C" >= :first AND platform_channel_id COLLATE "C" < :behind
      AND platform_channel_id <> :channel AND last_active_at > after - interval '1 day' AND finished_at > after
    ORDER BY finished_at DESC LIMIT 20
)
SELECT substr(channel, length(:first) + 1) AS chat, answer.content,
       floor(extract(epoch FROM finished_at) * 1000000)::bigint AS moment
FROM answered CROSS JOIN LATERAL (
    SELECT content FROM messages WHERE turn_id = answered.id AND role = 'assistant' ORDER BY seq DESC LIMIT 1
) AS answer ORDER BY finished_at;

-- name: list_own_files
SELECT file.id, file.filename, file.mime_type, file.size_bytes, file.status
FROM file_records AS file JOIN user_platform_links AS link ON link.user_id = file.user_id
WHERE file.id = ANY(CAST(:ids AS bigint[])) AND link.platform = 'web' AND link.platform_user_id = :who;

-- name: list_replies
-- What commands have answered below the turns of a chat's branch from one on, before another.
SELECT id, turn_id, event_id, line, reply, created_at FROM web_replies
WHERE platform_channel_id = :channel AND turn_id >= :first AND turn_id < :before AND turn_id <@ coalesce((
    SELECT shown_turns FROM conversations WHERE platform = 'web' AND platform_server_id IS NULL
        AND platform_thread_id IS NULL AND platform_channel_id = :channel
), '{(,)}') ORDER BY id;

-- name: keep_reply
-- Of a person who was just erased nothing is kept. A chat keeps its newest 500, a person 2,000.
WITH person AS (
    SELECT user_id AS id FROM user_platform_links WHERE platform = 'web' AND platform_user_id = :who
), surplus AS (
    DELETE FROM web_replies WHERE platform_channel_id = :channel AND id <= (
        SELECT id FROM web_replies WHERE platform_channel_id = :channel ORDER BY id DESC LIMIT 1 OFFSET 499
    )
), surplus_of_person AS (
    DELETE FROM web_replies WHERE user_id = (SELECT person.id FROM person) AND id <= (
        SELECT reply.id FROM web_replies AS reply WHERE reply.user_id = (SELECT person.id FROM person)
        ORDER BY reply.id DESC LIMIT 1 OFFSET 1999
    )
)
INSERT INTO web_replies (user_id, platform_channel_id, turn_id, event_id, line, reply)
SELECT person.id, :channel, coalesce((
    SELECT turns.id FROM conversations JOIN turns ON turns.conversation_id = conversations.id
    WHERE conversations.platform = 'web' AND platform_server_id IS NULL AND platform_thread_id IS NULL
      AND platform_channel_id = :channel AND turns.id <@ coalesce(shown_turns, '{(,)}') ORDER BY turns.id DESC LIMIT 1
), 0), :event_id, :line, CAST(:reply AS jsonb)
FROM person
ON CONFLICT (platform_channel_id, event_id) DO NOTHING;

-- name: find_newest_reply
SELECT coalesce(max(id), 0) AS id FROM web_replies WHERE platform_channel_id = :channel;

-- name: list_new_replies
-- One row without a reply when there is none; no row at all when the session that asks has ended.
SELECT new.id, new.turn_id, new.event_id, new.line, new.reply, new.created_at
FROM web_sessions AS asking LEFT JOIN web_replies AS new ON new.platform_channel_id = :channel AND new.id > :after
WHERE asking.id = :session_id AND asking.ends_at > now() ORDER BY new.id;

-- name: list_arrivals
-- The messages of a chat behind one: those that are open, and those whose turn is newer than the one shown last.
SELECT id, platform_event_id, content, attachments, turn_id, due_job IS NOT NULL AS is_due FROM inbox
WHERE place_key = :place_key AND status IN ('waiting', 'claimed') AND id > :after
UNION ALL
SELECT inbox.id, platform_event_id, content, attachments, inbox.turn_id, due_job IS NOT NULL FROM conversations
JOIN turns ON turns.conversation_id = conversations.id JOIN inbox ON inbox.turn_id = turns.id
WHERE conversations.platform = 'web' AND conversations.platform_server_id IS NULL
  AND conversations.platform_thread_id IS NULL AND conversations.platform_channel_id = :channel
  AND turns.id <@ coalesce(shown_turns, '{(,)}')
  AND turns.id > :after_turn AND inbox.id > :after AND inbox.status NOT IN ('waiting', 'claimed')
ORDER BY id;

-- name: list_turns_of_messages
SELECT id, turn_id FROM inbox WHERE id = ANY(CAST(:ids AS bigint[]));

-- name: find_message_here
SELECT id FROM inbox WHERE id = :id AND place_key = :place_key;

-- name: export_messages
-- Of the branch that is chosen.
SELECT messages.turn_id, seq, role, content, speaker, model_used, created_at FROM messages
WHERE conversation_id = :conversation_id AND role IN ('user', 'assistant')
  AND turn_id <@ (SELECT coalesce(shown_turns, '{(,)}') FROM conversations WHERE conversations.id = :conversation_id)
  AND (messages.turn_id, seq) > (:turn_id, :seq)
ORDER BY messages.turn_id, seq LIMIT :limit;

-- name: is_memory_paused
SELECT is_memory_paused FROM users WHERE id = :user_id;

-- name: list_offer
-- The persona that answers on the page where nothing is chosen, if there is one, and what is open to a permission beside it.
SELECT persona.name, persona.picture, persona.default_model AS model, persona.suggestions, (
    SELECT jsonb_agg(jsonb_build_object('id', other.id, 'name', other.name, 'picture', other.picture) ORDER BY lower(other.name), other.id)
    FROM personas AS other WHERE parley_is_open(other.open_to, :permission) AND other.id IS DISTINCT FROM persona.id
) AS personas, (
    SELECT array_agg(open.model) FROM open_models AS open WHERE parley_is_open(open.open_to, :permission)
) AS models
FROM (SELECT) AS one LEFT JOIN parley_find_persona(NULL, 'web', NULL, NULL) AS answers ON true
LEFT JOIN personas AS persona ON persona.id = answers.id;

-- name: read_choices
SELECT chosen_persona_id, chosen_model FROM conversations
WHERE platform = 'web' AND platform_server_id IS NULL AND platform_thread_id IS NULL AND platform_channel_id = :channel;

-- name: choose
SELECT parley_choose(:conversation_id, :user_id, CAST(:choices AS jsonb));

-- name: vote
SELECT parley_vote(turns.id, CAST(:score AS smallint), :comment) FROM turns JOIN conversations ON conversations.id = conversation_id
WHERE turns.id = :turn_id AND parent_turn_id IS NULL AND turns.status <> 'running' AND platform = 'web'
  AND platform_server_id IS NULL AND platform_thread_id IS NULL AND platform_channel_id = :channel AND turns.user_id IS NOT NULL;
