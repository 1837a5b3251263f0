CREATE FUNCTION admin.explain_turn(turn bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_story jsonb := public.parley_explain_turn(turn);
BEGIN
    IF v_story IS NULL THEN
        RAISE EXCEPTION 'there is no turn %; %', turn,
            coalesce('the last one is ' || (SELECT max(id) FROM public.turns), 'there is none yet');
    END IF;
    RETURN v_story;
END
$$;
COMMENT ON FUNCTION admin.explain_turn IS 'Why a turn answered what it did, as parley explain shows it: SELECT jsonb_pretty(admin.explain_turn(17)).';
