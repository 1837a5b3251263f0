-- name: read_revision
SELECT version_num FROM alembic_version;

-- name: read_oldest_revision
SELECT oldest_revision FROM schema_compatibility;

-- name: list_files_of_owners
SELECT owner, file FROM schema_history;
