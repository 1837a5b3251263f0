-- name: create_share
-- What has been answered so far in the branch that is shown; no row: nothing has. At most 50 links of a person are open.
INSERT INTO web_shares (user_id, conversation_id, turns, expires_at)
SELECT :user_id, place.id, coalesce(shown_turns, '{(,)}') * int8multirange(int8range(0, newest.id, '[]')),
       now() + :days * interval '1 day'
FROM conversations AS place CROSS JOIN LATERAL (
    SELECT max(turns.id) AS id FROM turns
    WHERE turns.conversation_id = place.id AND parent_turn_id IS NULL AND status <> 'running'
      AND turns.id <@ coalesce(shown_turns, '{(,)}')
) AS newest
WHERE place.id = :conversation_id AND newest.id IS NOT NULL AND (
    SELECT count(*) FROM web_shares WHERE user_id = :user_id AND revoked_at IS NULL AND expires_at > now()
) < 50
RETURNING id;

-- name: list_shares
SELECT share.id, substr(place.platform_channel_id, length(:first) + 1) AS chat, share.created_at, share.expires_at, coalesce(
    web_chats.title,
    (SELECT content FROM messages WHERE messages.conversation_id = place.id AND role = 'user' ORDER BY turn_id, seq LIMIT 1)
) AS title
FROM user_platform_links AS link JOIN web_shares AS share ON share.user_id = link.user_id
JOIN conversations AS place ON place.id = share.conversation_id
LEFT JOIN web_chats ON web_chats.platform_channel_id = place.platform_channel_id
WHERE link.platform = 'web' AND link.platform_user_id = :who AND revoked_at IS NULL AND share.expires_at > now()
  AND place.platform_channel_id COLLATE "C" >= :first AND place.platform_channel_id COLLATE "C" < :behind
ORDER BY share.id DESC;

-- name: revoke_share
UPDATE web_shares SET revoked_at = now() FROM user_platform_links AS link
WHERE web_shares.id = :id AND link.user_id = web_shares.user_id AND link.platform = 'web' AND link.platform_user_id = :who
  AND revoked_at IS NULL
RETURNING web_shares.id;

-- name: read_share
SELECT share.conversation_id, share.expires_at, share.created_at, coalesce(
    web_chats.title,
    (SELECT content FROM messages WHERE messages.conversation_id = place.id AND role = 'user'
     AND turn_id <@ share.turns ORDER BY turn_id, seq LIMIT 1)
) AS title
FROM web_shares AS share JOIN conversations AS place ON place.id = share.conversation_id
LEFT JOIN web_chats ON web_chats.platform_channel_id = place.platform_channel_id
WHERE share.id = :id AND revoked_at IS NULL AND share.expires_at > now();

-- name: list_shared_messages
-- Of each turn what was said and what was answered, without what tools were given and what they found; from the beginning on,
-- as many bytes as are shown. Their number is known without reading the texts.
SELECT role, content FROM (
    SELECT turns.id, said.*, sum(octet_length(said.content)) OVER (ORDER BY turns.id, said.seq) AS bytes
    FROM web_shares AS share JOIN turns ON turns.conversation_id = share.conversation_id AND turns.id <@ share.turns
    CROSS JOIN LATERAL (
        SELECT seq, role, content FROM messages WHERE messages.turn_id = turns.id AND role = 'user'
        UNION ALL
        -- A turn that ended before its answer has only what was thought on the way.
        SELECT last.* FROM (
            SELECT seq, role, content FROM messages WHERE messages.turn_id = turns.id AND plan IS NULL ORDER BY seq DESC LIMIT 1
        ) AS last WHERE role = 'assistant'
    ) AS said
    WHERE share.id = :id AND turns.parent_turn_id IS NULL AND turns.status <> 'running' AND said.content <> ''
) AS shown
WHERE bytes <= :bytes ORDER BY id, seq LIMIT :limit;
