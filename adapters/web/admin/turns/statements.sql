-- name: list_turns
-- The rows are chosen before they are named. A place is a server or channel by its id, or a server by its name; its conversations
-- are looked up once, not for each turn.
SELECT named.id, named.started_at, named.took, named.name, named.platform, named.server, named.channel, named.persona,
       named.status, named.error, named.model, named.iterations, named.attempt, named.tokens, named.dollars
FROM (
    SELECT turn.id FROM turns AS turn
    WHERE turn.id < :before AND turn.parent_turn_id IS NULL
      AND (CAST(:status AS text) IS NULL OR turn.status = :status)
      AND (CAST(:model AS text) IS NULL OR turn.model = :model)
      AND (CAST(:error AS text) IS NULL OR turn.error = :error OR :error = 'any' AND turn.error IS NOT NULL)
      AND (CAST(:since AS timestamptz) IS NULL OR turn.started_at >= :since)
      AND (CAST(:persona AS bigint) IS NULL OR turn.persona_id = :persona)
      AND (CAST(:people AS bigint[]) IS NULL OR turn.user_id = ANY(:people))
      AND (CAST(:place AS text) IS NULL OR turn.conversation_id IN (
          SELECT place.id FROM conversations AS place
          WHERE place.platform_server_id = :place OR place.platform_channel_id = :place OR place.platform = :place
             OR (place.platform, place.platform_server_id) IN (
                 SELECT server.platform, server.platform_server_id FROM servers AS server WHERE lower(server.name) = lower(:place)
             )
      ))
    ORDER BY turn.id DESC LIMIT :rows
) AS chosen JOIN admin.turns AS named USING (id) ORDER BY named.id DESC;

-- name: find_people
-- By number, account, or name; a part of a name is enough.
SELECT users.id FROM users LEFT JOIN user_platform_links AS link ON link.user_id = users.id
WHERE users.id = CAST(:number AS bigint) OR link.platform_user_id = :text OR link.platform || ':' || link.platform_user_id = :text
   OR position(lower(CAST(:name AS text)) IN lower(users.display_name)) > 0
   OR position(lower(CAST(:name AS text)) IN lower(link.platform_username)) > 0
GROUP BY users.id ORDER BY users.id LIMIT 500;

-- name: list_choices
-- What the newest turns have, to choose from.
SELECT array_agg(DISTINCT model ORDER BY model) FILTER (WHERE model IS NOT NULL) AS models,
       array_agg(DISTINCT error ORDER BY error) FILTER (WHERE error IS NOT NULL) AS errors
FROM (SELECT model, error FROM turns ORDER BY id DESC LIMIT 2000) AS newest;

-- name: explain_turn
SELECT parley_explain_turn(:turn);
