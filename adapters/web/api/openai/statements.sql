-- name: store_response
-- The same request may come again. The message, or what it goes on from, may be gone meanwhile.
INSERT INTO stored_responses (inbox_id, previous_id, metadata)
SELECT inbox.id, (SELECT inbox_id FROM stored_responses WHERE inbox_id = :previous_id FOR KEY SHARE), CAST(:metadata AS jsonb)
FROM inbox WHERE inbox.id = :inbox_id FOR KEY SHARE
ON CONFLICT (inbox_id) DO NOTHING;

-- name: find_stored_response
SELECT stored.previous_id, stored.metadata, stored.created_at, inbox.platform, inbox.platform_user_id
FROM stored_responses AS stored JOIN inbox ON inbox.id = stored.inbox_id
WHERE stored.inbox_id = :inbox_id;

-- name: find_previous_response
-- Where a request that goes on from an answer belongs, whether the answer is there, and whether the place has had a message
-- since. `known_channel` is the place of this same request, if it came before.
SELECT inbox.platform, inbox.platform_user_id, inbox.platform_channel_id, outbox.id IS NOT NULL AS is_answered,
    EXISTS (
        SELECT FROM turns AS later
        WHERE later.conversation_id = turns.conversation_id AND later.id > turns.id AND later.parent_turn_id IS NULL
    ) OR EXISTS (
        SELECT FROM inbox AS waiting WHERE waiting.place_key = inbox.place_key AND waiting.status IN ('waiting', 'claimed')
    ) AS is_followed,
    (SELECT same.platform_channel_id FROM inbox AS same
     WHERE same.platform = inbox.platform AND same.platform_event_id = :event_id
       AND same.platform_user_id = inbox.platform_user_id) AS known_channel
FROM stored_responses AS stored
JOIN inbox ON inbox.id = stored.inbox_id
LEFT JOIN turns ON turns.id = inbox.turn_id
LEFT JOIN outbox ON outbox.turn_id = turns.id
WHERE stored.inbox_id = :inbox_id;

-- name: list_exchanges
-- What was said in the answers that lead to this one, and in it, oldest first.
WITH RECURSIVE chain AS (
    SELECT stored.inbox_id, stored.previous_id, 1 AS place FROM stored_responses AS stored WHERE stored.inbox_id = :inbox_id
    UNION ALL
    SELECT earlier.inbox_id, earlier.previous_id, chain.place + 1
    FROM stored_responses AS earlier JOIN chain ON earlier.inbox_id = chain.previous_id WHERE chain.place < :most
)
SELECT inbox.content AS question, outbox.content AS answer
FROM chain JOIN inbox ON inbox.id = chain.inbox_id LEFT JOIN outbox ON outbox.turn_id = inbox.turn_id
ORDER BY chain.place DESC;

-- name: delete_response
DELETE FROM stored_responses WHERE inbox_id = :inbox_id RETURNING inbox_id;

-- name: find_token_budget
-- The monthly tokens of the person with this account, if they have a limit.
SELECT own.token_limit + granted.tokens AS budget, own.tokens_used AS used, own.tokens_reserved AS reserved, own.resets_at
FROM user_platform_links AS link
CROSS JOIN LATERAL parley_read_limits(ROW(link.user_id, NULL, NULL)) AS own
CROSS JOIN LATERAL parley_granted(link.user_id, NULL, NULL) AS granted
WHERE link.platform = :platform AND link.platform_user_id = :platform_user_id AND own.token_limit IS NOT NULL;
