-- name: has_histories
-- Whether there is what tells of revisions and files: not in a new database.
SELECT to_regclass('alembic_version') IS NOT NULL AND to_regclass('schema_history') IS NOT NULL;

-- name: read_revision
SELECT version_num FROM alembic_version;

-- name: read_oldest_revision
SELECT oldest_revision FROM schema_compatibility;

-- name: list_files_of_owners
SELECT owner, file FROM schema_history;

-- name: bring_in_line
-- In the transaction that makes tables: their owner is bound, and in a cell no other one gives out their ids.
SELECT public.parley_bind_owner(), (SELECT public.parley_number_cell(number, name) FROM public.own_cell);

-- name: name_tables
SELECT string_agg(CAST(oid AS regclass)::text, ', ') FROM pg_class
WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind IN ('r', 'p') AND has_table_privilege(oid, 'SELECT');
