-- name: list_others
SELECT coalesce(nullif(application_name, ''), 'a program without a name') AS name,
       string_agg(DISTINCT usename, ' and ') AS role, coalesce(host(client_addr), 'this machine') AS host,
       count(*) AS connections, min(backend_start) AS since
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
GROUP BY 1, 3 ORDER BY since;

-- name: list_tables
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY relname;

-- name: count_objects
-- Objects in the schemas that people use, those of extensions left out.
SELECT count(*) FROM pg_class
WHERE relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND relkind IN ('r', 'v', 'm', 'S') AND relpersistence = 'p'
  AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e');

-- name: list_revisions
SELECT 'alembic_version' AS owner, version_num AS revision FROM public.alembic_version
UNION ALL SELECT owner, max(file) FROM public.schema_history GROUP BY owner;

-- name: verify_audit
SELECT entries, last_hash, first_broken FROM public.parley_verify_audit();

-- name: list_roles
SELECT rolname, rolcanlogin FROM pg_roles WHERE starts_with(rolname, 'parley_');

-- name: list_members
SELECT DISTINCT role.rolname AS role, member.rolname AS member FROM pg_auth_members
JOIN pg_roles AS role ON role.oid = roleid JOIN pg_roles AS member ON member.oid = pg_auth_members.member
WHERE starts_with(role.rolname, 'parley_') AND starts_with(member.rolname, 'parley_');

-- name: list_keys
-- Uploads whose message waits for its turn have no row of their own yet.
SELECT minio_key AS key, status = 'stored' AS is_stored, sha256 FROM file_records WHERE status <> 'failed'
UNION
SELECT file ->> 'storage_key', false, NULL FROM inbox, jsonb_array_elements(attachments) AS file
WHERE status IN ('waiting', 'claimed') AND file ->> 'storage_key' IS NOT NULL
ORDER BY 1;

-- name: bind_owner
SELECT public.parley_bind_owner();

-- name: find_mime_type
SELECT mime_type FROM file_records WHERE minio_key = :key;

-- name: end_history
-- No server has this timeline: who connects next begins a new history, in which no id is given out a second time.
UPDATE public.database_histories SET timeline = 0 WHERE id = (SELECT max(id) FROM public.database_histories);

-- name: note_backup
INSERT INTO backups (host, path, made_at, size_bytes, missing_files)
VALUES (:host, :path, CAST(:made_at AS timestamptz), CAST(:size_bytes AS bigint), CAST(:missing_files AS integer));

-- name: note_failure
INSERT INTO backups (host, path, error) VALUES (:host, :path, :error);

-- name: note_verification
-- A copy has the moment of its original.
UPDATE backups SET verified_at = now() WHERE made_at = CAST(:made_at AS timestamptz);

-- name: list_backups
SELECT id, host, path, made_at, size_bytes, missing_files, verified_at, error, created_at FROM backups
ORDER BY id DESC LIMIT 50;

-- name: read_last_backups
-- What the last try came to, and of which moment the last archive is.
SELECT last.created_at AS tried_at, last.error, made.made_at, made.verified_at, now() - made.made_at AS age
FROM (SELECT created_at, error FROM backups ORDER BY id DESC LIMIT 1) AS last
LEFT JOIN (SELECT made_at, verified_at FROM backups WHERE made_at IS NOT NULL ORDER BY made_at DESC LIMIT 1) AS made ON true;
