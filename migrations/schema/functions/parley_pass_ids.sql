-- Lets the ids of this cell go on behind those of another one (parley_last_ids), of which rows come: the turns of a conversation
-- are in the order of their ids, and what is new here must come after what has moved.
CREATE FUNCTION public.parley_pass_ids(p_last_ids jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_sequence record;
BEGIN
    FOR v_sequence IN
        SELECT format('%I.%I', s.schemaname, s.sequencename)::regclass AS name, s.last_value AS last,
               (p_last_ids ->> s.sequencename)::bigint AS other
        FROM pg_sequences AS s WHERE s.schemaname = 'public' AND s.last_value < (p_last_ids ->> s.sequencename)::bigint
    LOOP
        PERFORM setval(v_sequence.name, v_sequence.other + 16 - v_sequence.other % 16 + v_sequence.last % 16);
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_pass_ids IS 'Lets the ids of this cell go on behind those of another one.';
REVOKE EXECUTE ON FUNCTION public.parley_pass_ids FROM parley_app, parley_admin;
