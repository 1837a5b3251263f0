-- name: find_file
SELECT id, filename, minio_key, mime_type, size_bytes, status, sha256, author FROM file_records WHERE id = :id;

-- name: find_own_file
SELECT id, filename, minio_key, mime_type, size_bytes, status, sha256, author,
       CAST(:conversation_id AS bigint) IS NULL OR EXISTS (
           SELECT FROM parley_visible_files(:user_id, :conversation_id) AS visible WHERE visible.id = file_records.id
       ) AS is_visible
FROM file_records WHERE id = :id AND user_id = :user_id;

-- name: list_files
SELECT id, filename, minio_key, mime_type, size_bytes, status, sha256, author FROM file_records
WHERE user_id = :user_id AND status = 'stored' AND (
    CAST(:conversation_id AS bigint) IS NULL OR id IN (SELECT id FROM parley_visible_files(:user_id, :conversation_id))
)
ORDER BY id DESC LIMIT :limit OFFSET :skip;

-- name: lock_files
SELECT pg_advisory_xact_lock(hashtextextended('files ' || CAST(:user_id AS bigint), 0));

-- name: add_file
INSERT INTO file_records (
    user_id, conversation_id, turn_id, filename, minio_key, mime_type, size_bytes, sha256, status, author
) VALUES (
    :user_id, :conversation_id, :turn_id, :filename, :minio_key, :mime_type, :size_bytes, :sha256, 'pending', :author
) RETURNING id, filename, minio_key, mime_type, size_bytes, author;

-- name: rename_file
UPDATE file_records SET filename = :filename, author = :author WHERE id = :id;

-- name: mark_file
UPDATE file_records SET status = :status WHERE id = :id;

-- name: remove_file
DELETE FROM file_records WHERE id = :id;

-- name: read_quota
-- A file that is pending for longer than an hour was lost in a crash, and no longer counts.
SELECT (
    SELECT parley_permission(permission_level, permission_until, permission_after) FROM users WHERE id = :user_id
) AS level, (
    SELECT coalesce(sum(size_bytes), 0) FROM file_records
    WHERE user_id = :user_id
      AND (status = 'stored' OR (status = 'pending' AND created_at > now() - interval '1 hour'))
) AS used;
