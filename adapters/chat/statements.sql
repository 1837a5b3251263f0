-- name: find_gap
-- The first process that listens inserts the row without a mark.
INSERT INTO shards (bot_id, shard_id) VALUES (:bot_id, 0)
ON CONFLICT (bot_id, shard_id) DO UPDATE SET shard_id = 0
RETURNING
    -- A time that is still to come says nothing; all that the setting covers is read then.
    CASE WHEN CAST(seen_id AS numeric) > extract(epoch FROM now()) + 60 THEN '0' ELSE seen_id END AS seen_id,
    -- Nobody holds it for longer: the database's clock was set back since.
    coalesce(leased_until BETWEEN now() AND now() + 2 * :held * interval '1 second', false) AS is_held;

-- name: note_seen
UPDATE shards SET leased_until = now() + :held * interval '1 second', seen_id = CASE
    WHEN CAST(seen_id AS numeric) BETWEEN CAST(CAST(:seen AS text) AS numeric) AND extract(epoch FROM now()) THEN seen_id
    ELSE :seen
END
WHERE bot_id = :bot_id AND shard_id = 0;

-- name: take_left
-- What processes have left unread that listen no more: rows of their own, beside that of the mark.
DELETE FROM shards WHERE bot_id = :bot_id AND shard_id NOT IN (0, :number) AND leased_until < now() RETURNING seen_id;

-- name: note_missing
INSERT INTO shards (bot_id, shard_id, leased_until, seen_id)
VALUES (:bot_id, :number, now() + :held * interval '1 second', :missing)
ON CONFLICT (bot_id, shard_id) DO UPDATE SET leased_until = excluded.leased_until, seen_id = excluded.seen_id;

-- name: forget_missing
DELETE FROM shards WHERE bot_id = :bot_id AND shard_id = :number;

-- name: release
-- What this process leaves unread is another one's at once.
UPDATE shards SET leased_until = CASE WHEN shard_id > 0 THEN now() END
WHERE bot_id = :bot_id AND shard_id IN (0, :number);

-- name: find_turn
SELECT outbox.choices, outbox.reply_to, outbox.platform, outbox.platform_server_id, outbox.platform_channel_id,
       outbox.platform_thread_id, outbox.is_direct,
       (SELECT confirmations.id FROM confirmations WHERE confirmations.turn_id = turns.id) AS confirmation_id,
       (SELECT json_agg(json_build_object('content', content, 'attachments', attachments, 'user', platform_user_id)
                        ORDER BY sent_at, id) FROM inbox WHERE inbox.turn_id = turns.id) AS asked
FROM turns JOIN outbox ON outbox.turn_id = turns.id WHERE turns.id = :turn_id;

-- name: find_running_turn
SELECT turns.user_id, inbox.platform, inbox.platform_server_id, inbox.platform_channel_id, inbox.platform_thread_id,
       inbox.is_direct
FROM turns JOIN inbox ON inbox.turn_id = turns.id
WHERE turns.id = :turn_id AND turns.status = 'running' AND inbox.platform_user_id = :asker LIMIT 1;

-- name: store_vote
SELECT parley_vote(turns.id, CAST(:score AS smallint)) FROM turns
WHERE turns.id = :turn_id AND turns.user_id IS NOT NULL
  AND EXISTS (SELECT FROM inbox WHERE inbox.turn_id = turns.id AND inbox.platform_user_id = :asker);

-- name: store_reply
SELECT reply_id FROM parley_add_reply(NULL, CAST(:reply AS jsonb));

-- name: change_note
-- Returns whether another process has taken it; one that is erased is nobody's.
WITH changed AS (
    UPDATE outbox SET reply_to = reply.reply_to, content = reply.content, files = reply.files, choices = reply.choices,
        claimed_until = now() + reply.lease * interval '1 second'
    FROM jsonb_to_record(CAST(:reply AS jsonb))
        AS reply (reply_to text, content text, files jsonb, choices jsonb, lease double precision)
    WHERE id = :id AND status = 'noted'
    RETURNING id
)
SELECT EXISTS (SELECT FROM outbox WHERE id = :id) AND NOT EXISTS (SELECT FROM changed) AS is_taken;

-- name: renew_note
UPDATE outbox SET claimed_until = now() + :seconds * interval '1 second' WHERE id = :id AND status = 'noted';

-- name: keep_note
UPDATE outbox SET status = 'pending', error = :error, attempts = 1, tried_at = now(),
    claimed_until = now() + :seconds * interval '1 second'
WHERE id = :id AND status = 'noted';

-- name: remove_note
-- Unless it is kept, or on its way.
DELETE FROM outbox WHERE id = :id AND status = 'noted';

-- name: list_rules
-- For several places in one statement. The most specific rule applies: thread, channel, server. The agent takes part in a
-- thread as soon as a message of it is stored, which is before the turn creates the conversation; as which of several bots,
-- says the adapter. Of a server that has come from another cell or gone to one: the state.
SELECT coalesce(rule.mode, 'mention') AS mode, coalesce(rule.thread_per_question, false) AS thread_per_question,
    coalesce(rule.answers_others, false) AS answers_others, spoken.number IS NOT NULL AS is_known, spoken.adapter,
    (SELECT state FROM cell_servers WHERE platform = place.platform AND platform_server_id = server) AS state
FROM unnest(CAST(:platforms AS text[]), CAST(:servers AS text[]), CAST(:channels AS text[]), CAST(:threads AS text[]),
            CAST(:place_keys AS text[]))
     WITH ORDINALITY AS place (platform, server, channel, thread, place_key, number)
LEFT JOIN LATERAL (
    SELECT mode, thread_per_question, answers_others FROM channel_modes
    WHERE channel_modes.platform = place.platform AND coalesce(platform_server_id, server, '') = coalesce(server, '')
      AND (platform_channel_id IS NULL OR platform_channel_id IN (channel, thread))
    ORDER BY platform_channel_id IS NULL, platform_channel_id <> coalesce(thread, ''), platform_server_id IS NULL
    LIMIT 1
) AS rule ON true
LEFT JOIN LATERAL (
    SELECT 1 AS number, adapter FROM conversations
    WHERE conversations.platform = place.platform AND platform_server_id = server AND platform_channel_id = channel
      AND platform_thread_id IS NOT DISTINCT FROM thread
    UNION ALL
    SELECT 2, adapter FROM conversations
    WHERE server IS NULL AND conversations.platform = place.platform AND platform_server_id IS NULL
      AND platform_channel_id = channel AND platform_thread_id IS NOT DISTINCT FROM thread
    UNION ALL
    SELECT 3, adapter FROM inbox WHERE inbox.place_key = place.place_key AND status IN ('waiting', 'claimed')
    LIMIT 1
) AS spoken ON true
ORDER BY place.number;

-- name: take_lease
-- Returns a row only to the process that may listen.
INSERT INTO chat_listeners AS listener (platform, account, holder, leased_until)
VALUES (:platform, :account, :holder, now() + :lease * interval '1 second')
ON CONFLICT (platform, account) DO UPDATE SET holder = excluded.holder, leased_until = excluded.leased_until
WHERE listener.holder = excluded.holder OR listener.leased_until < now()
   -- Nobody holds it for longer: the database's clock was set back since.
   OR listener.leased_until > now() + 2 * :lease * interval '1 second'
RETURNING mark;

-- name: note_mark
UPDATE chat_listeners SET mark = :mark WHERE platform = :platform AND account = :account AND holder = :holder
RETURNING mark;

-- name: release_lease
UPDATE chat_listeners SET leased_until = now() - interval '1 second'
WHERE platform = :platform AND account = :account AND holder = :holder
RETURNING mark;

-- name: store_buttons
WITH old AS (DELETE FROM chat_buttons WHERE created_at < now() - interval '2 days')
INSERT INTO chat_buttons (platform, channel, message, thread, buttons)
VALUES (:platform, :channel, :message, :thread, CAST(:buttons AS jsonb))
ON CONFLICT (platform, channel, message) DO UPDATE SET buttons = excluded.buttons;

-- name: find_button
SELECT thread, buttons ->> :emoji AS button FROM chat_buttons
WHERE platform = :platform AND channel = :channel AND message = :message;

-- name: delete_buttons
DELETE FROM chat_buttons WHERE platform = :platform AND channel = :channel AND message = :message;
