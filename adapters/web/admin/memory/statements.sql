-- name: list_totals
SELECT source, scope, memories, superseded, with_vectors, of_paused FROM admin.memory_totals;

-- name: read_counts
SELECT (SELECT count(*) FROM users WHERE is_memory_paused) AS paused_people,
       count(*) FILTER (WHERE is_memory_paused) AS paused_places, count(summary) AS summaries,
       count(*) FILTER (WHERE summary_due_at <= now() AND NOT is_summarized) AS summaries_due,
       count(*) FILTER (WHERE summary_failures > 0) AS summaries_failed
FROM conversations;

-- name: find_person
-- With the account by which the functions of `admin` know them.
SELECT person.id, person.name, person.is_memory_paused, account.platform, account.platform_user_id AS account
FROM admin.users AS person CROSS JOIN LATERAL (
    SELECT link.platform, link.platform_user_id FROM user_platform_links AS link
    WHERE link.user_id = person.id ORDER BY link.id LIMIT 1
) AS account
WHERE person.id = :id;

-- name: read_memories
SELECT id, said_at, source, scope, place, author, is_superseded, content
FROM admin.read_memories(:platform, :account, :reason, most => :most);

-- name: list_readings
-- The latest entries about this person's memories.
SELECT entry.id, entry.created_at AS at, coalesce(entry.actor, entry.database_user) AS who, entry.new_values ->> 'reason' AS reason,
       CAST(entry.new_values ->> 'memories' AS bigint) AS memories
FROM audit_log AS entry WHERE entry.table_name = 'memories' AND entry.row_id = :id ORDER BY entry.id DESC LIMIT 20;
