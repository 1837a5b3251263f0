-- name: write_beginning
-- RESET ALL does not touch login, role and how a transaction began. Nothing in the text is looked up in a schema that a
-- session could name. Temporary tables are looked up last, which would stand before ours otherwise. The check comes behind
-- the rest, which it needs.
SELECT format(
    'BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE; SET LOCAL SESSION AUTHORIZATION DEFAULT; RESET ALL; '
    'SET LOCAL ROLE %I; SET LOCAL search_path TO %s; %s',
    CAST(:role AS text),
    (SELECT string_agg(format('%I', path.schema), ', ') FROM unnest(current_schemas(false) || CAST('pg_temp' AS name)) AS path (schema)),
    (
        SELECT string_agg(format('SET LOCAL %I TO %L', own.setting, current_setting(own.setting)), '; ')
        FROM unnest(CAST(:names AS text[])) AS own (setting)
    )
) AS settings, format(
    '; SELECT public.parley_check_history(%s, %L, %s)', CAST(:history_id AS bigint), CAST(:created_at AS timestamptz),
    CAST(:timeline AS bigint)
) AS history_check;
