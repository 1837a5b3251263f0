-- Shows what is remembered of one person, the newest first, for a reason: who reads it, of whom, why and how much stands in the
-- log of changes. With the rights of its owner, because the program sees of a person only what their own turns may.
CREATE FUNCTION admin.read_memories(platform text, account text, reason text, most integer DEFAULT 200)
RETURNS TABLE (
    id bigint, said_at timestamptz, source text, scope text, place text, author text, is_superseded boolean, content text
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
    -- Without what nobody sees, which would make any reason long enough.
    v_reason text := btrim(regexp_replace(regexp_replace(reason,
        '[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164'
        '\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]', '', 'g'), '\s+', ' ', 'g'));
    v_count bigint;
BEGIN
    IF v_reason IS NULL OR char_length(v_reason) NOT BETWEEN 10 AND 500 THEN
        RAISE EXCEPTION 'say in 10 to 500 characters why you read what is remembered of %; the log of changes keeps it', account;
    END IF;
    IF most IS NULL OR most NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'most is 1 to 10000, not %', most;
    END IF;
    PERFORM public.parley_check_rank(
        EXISTS (SELECT FROM public.users AS person WHERE person.id = v_id AND 'owner' IN (person.permission_level, person.permission_after)),
        true
    );
    RETURN QUERY SELECT memory.id, memory.said_at, memory.source, memory.scope,
        nullif(concat_ws('/', memory.platform, memory.platform_server_id), ''), memory.author,
        memory.superseded_by IS NOT NULL, memory.content
    FROM public.memories AS memory WHERE memory.user_id = v_id
    ORDER BY memory.said_at DESC, memory.id DESC LIMIT most;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    -- Behind the reading, because all other changes wait for this one from here on; nobody has a row of it before the entry.
    PERFORM public.parley_write_audit('memories', v_id, 'read', NULL, jsonb_build_object('reason', v_reason, 'memories', v_count));
END
$$;
COMMENT ON FUNCTION admin.read_memories IS
    'What is remembered of a person; the reason stands in the log of changes: SELECT * FROM admin.read_memories(''discord'', ''ann'', ''she asked what we keep of her'').';
REVOKE EXECUTE ON FUNCTION admin.read_memories FROM PUBLIC;
GRANT EXECUTE ON FUNCTION admin.read_memories TO parley_admin, parley_app;
