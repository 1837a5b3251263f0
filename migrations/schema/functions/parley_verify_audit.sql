-- Whether the chain of audit_log is whole: how many entries there are, the newest one's hash, and the first entry that was
-- changed or whose predecessor is missing (null if there is none). That the newest ones were cut off, only a hash can tell that
-- was noted before.
CREATE FUNCTION public.parley_verify_audit(OUT entries bigint, OUT last_hash text, OUT first_broken bigint)
LANGUAGE sql STABLE AS $$
    SELECT count(*), max(encode(hash, 'hex')) FILTER (WHERE is_last), min(id) FILTER (WHERE is_broken)
    FROM (
        SELECT entry.id, entry.hash, lead(entry.id) OVER by_id IS NULL AS is_last,
               entry.hash <> public.parley_audit_hash(entry)
               OR entry.previous_hash IS DISTINCT FROM lag(entry.hash) OVER by_id AS is_broken
        FROM public.audit_log AS entry
        WINDOW by_id AS (ORDER BY entry.id)
    ) AS checked
$$;
COMMENT ON FUNCTION public.parley_verify_audit IS 'Whether audit_log was changed: its length, its last hash, the first broken entry.';
-- Views of admin call it with the rights of whoever looks.
GRANT EXECUTE ON FUNCTION public.parley_verify_audit TO parley_readonly;
