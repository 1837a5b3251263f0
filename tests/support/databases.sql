SELECT 'pg_attrdef' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_attrdef
UNION ALL SELECT 'pg_attribute' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_attribute
UNION ALL SELECT 'pg_class' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_class
UNION ALL SELECT 'pg_constraint' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_constraint
UNION ALL SELECT 'pg_default_acl' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_default_acl
UNION ALL SELECT 'pg_event_trigger' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_event_trigger
UNION ALL SELECT 'pg_extension' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_extension
UNION ALL SELECT 'pg_index' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_index
UNION ALL SELECT 'pg_namespace' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
UNION ALL SELECT 'pg_policy' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_policy
UNION ALL SELECT 'pg_proc' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_proc
UNION ALL SELECT 'pg_rewrite' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_rewrite
UNION ALL SELECT 'pg_trigger' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_trigger
UNION ALL SELECT 'pg_type' AS class, count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) AS new FROM pg_type
UNION ALL SELECT 'pg_statistic', count(*), 0 FROM pg_statistic WHERE starelid >= 16384
UNION ALL SELECT 'pg_database', count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) FROM pg_database WHERE datname = current_database()
UNION ALL SELECT 'pg_db_role_setting', count(*), count(*) FILTER (WHERE age(xmin) <= age($1::text::xid)) FROM pg_db_role_setting

SELECT oid::regclass::text AS name FROM pg_class
WHERE relkind IN ('r', 'p') AND NOT relispartition AND relpersistence <> 't' AND oid >= 16384 ORDER BY oid

SELECT setval(seqrelid, coalesce(value, seqstart), value IS NOT NULL)
FROM pg_sequence LEFT JOIN json_each_text($1) AS template (name, text) ON name = seqrelid::text,
    LATERAL (SELECT text::bigint AS value) AS its
WHERE pg_sequence_last_value(seqrelid) IS DISTINCT FROM value

SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> ALL ($1::int[]))
    OR EXISTS (SELECT FROM pg_class WHERE relkind = 'r' AND oid >= 16384 AND pg_relation_size(oid) > $2)
    OR EXISTS (SELECT FROM pg_prepared_xacts WHERE database = current_database())

SELECT json_object_agg(seqrelid, pg_sequence_last_value(seqrelid)) FROM pg_sequence
WHERE pg_sequence_last_value(seqrelid) IS NOT NULL

SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> ALL ($1::int[]) AND pid = ANY (coalesce($2::int[], ARRAY[pid]))
