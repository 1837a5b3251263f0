-- Refuses a misspelled platform. Programs that use the HTTP API give platforms names of their own: one that is like no other
-- is only warned of, and one from which somebody has written is known.
CREATE FUNCTION public.parley_check_platform(p_platform text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_known text[] := ARRAY(SELECT word FROM public.known_words WHERE kind = 'platform' ORDER BY word);
    v_nearest text;
BEGIN
    IF p_platform IS NULL OR v_known = '{}' OR p_platform = ANY (v_known)
       OR EXISTS (SELECT FROM public.user_platform_links AS link WHERE link.platform = p_platform) THEN
        RETURN;
    END IF;
    v_nearest := public.parley_nearest(p_platform, v_known);
    IF v_nearest IS NOT NULL THEN
        RAISE EXCEPTION 'there is no platform "%"; do you mean %?', p_platform, v_nearest
            USING HINT = 'A platform of your own is known as soon as somebody has written from it.';
    END IF;
    RAISE WARNING 'nobody has written from the platform "%" yet; there are: %', p_platform, array_to_string(v_known, ', ');
END
$$;
COMMENT ON FUNCTION public.parley_check_platform IS 'Refuses a misspelled platform with the one that may be meant.';
