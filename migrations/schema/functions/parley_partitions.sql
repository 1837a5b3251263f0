-- The partitions of the tables that are partitioned by the turn: the ids of turns from from_id on and before to_id. Both are NULL
-- for the default partition of a table, which has what belongs to no other.
CREATE FUNCTION public.parley_partitions()
RETURNS TABLE (table_name text, name text, from_id bigint, to_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT parent.relname::text, part.relname::text,
           substring(bounds FROM $re$FROM \('(\d+)'\)$re$)::bigint, substring(bounds FROM $re$TO \('(\d+)'\)$re$)::bigint
    FROM pg_catalog.pg_class AS parent
    JOIN pg_catalog.pg_inherits ON inhparent = parent.oid
    JOIN pg_catalog.pg_class AS part ON part.oid = inhrelid
    CROSS JOIN LATERAL pg_catalog.pg_get_expr(part.relpartbound, part.oid) AS bounds
    WHERE parent.relnamespace = 'public'::regnamespace AND parent.relkind = 'p'
$$;
COMMENT ON FUNCTION public.parley_partitions IS 'The partitions of tables, with the ids of turns that belong into each.';
