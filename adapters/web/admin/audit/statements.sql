-- name: list_entries
-- Found in the table: the view would work out every entry before. With the name of who did it, if they have an account here.
WITH shown AS (
    SELECT log.id FROM audit_log AS log
    WHERE log.id < :before
      AND (CAST(:table AS text) IS NULL OR log.table_name = :table)
      AND (CAST(:row AS bigint) IS NULL OR log.row_id = :row)
      AND (CAST(:who AS text) IS NULL OR coalesce(log.actor, log.database_user) ILIKE :who OR log.actor IN (
          SELECT account.platform || ':' || account.platform_user_id
          FROM users AS u JOIN user_platform_links AS account ON account.user_id = u.id
          WHERE u.display_name ILIKE :who OR account.platform_username ILIKE :who
      ))
      AND (CAST(:pattern AS text) IS NULL OR log.old_values::text ILIKE :pattern OR log.new_values::text ILIKE :pattern
           OR log.table_name IN ('users', 'memories') AND log.row_id IN (
               SELECT u.id FROM users AS u WHERE u.display_name ILIKE :pattern
               UNION SELECT account.user_id FROM user_platform_links AS account WHERE account.platform_username ILIKE :pattern
           ))
      AND (CAST(:since AS timestamptz) IS NULL OR log.created_at >= :since)
    ORDER BY log.id DESC LIMIT :limit
)
SELECT entry.id, entry.at, entry.who, person.id AS person_id, person.name AS person, entry.action, entry."table", entry.row_id,
       entry.name, entry.before, entry.after, entry.undoes, entry.undone_by
FROM shown CROSS JOIN LATERAL (SELECT log.* FROM admin.audit AS log WHERE log.id = shown.id LIMIT 1) AS entry
LEFT JOIN user_platform_links AS account
    ON account.platform = split_part(entry.who, ':', 1) AND account.platform_user_id = substr(entry.who, strpos(entry.who, ':') + 1)
LEFT JOIN LATERAL (SELECT u.id, u.name FROM admin.users AS u WHERE u.id = account.user_id) AS person ON true
ORDER BY entry.id DESC;

-- name: list_tables
SELECT DISTINCT table_name FROM audit_log ORDER BY table_name;
