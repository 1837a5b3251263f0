-- Refuses a model that no provider can have, and warns of one that this version of litellm does not list: its provider
-- may be newer than the list, and a server of one's own has models of its own.
CREATE FUNCTION public.parley_check_model(p_model text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_provider text := CASE WHEN strpos(p_model, '/') > 0 THEN split_part(p_model, '/', 1) ELSE '*' END;
    v_nearest text;
    v_meant text;
BEGIN
    IF p_model IS NULL OR NOT EXISTS (SELECT FROM public.known_words WHERE kind = 'model')
       OR EXISTS (SELECT FROM public.known_words WHERE kind = 'model' AND word = p_model) THEN
        RETURN;
    END IF;
    v_nearest := public.parley_nearest(p_model, ARRAY(SELECT word FROM public.known_words WHERE kind = 'model'));
    v_meant := CASE WHEN v_nearest IS NOT NULL THEN format('; do you mean %s?', v_nearest) ELSE '' END;
    IF EXISTS (SELECT FROM public.known_words WHERE kind = 'provider' AND word = v_provider) THEN
        RAISE WARNING 'the model "%" is in no list%', p_model, v_meant;
        RETURN;
    END IF;
    RAISE EXCEPTION 'there is no model "%"%', p_model, v_meant
        USING HINT = 'Write it as provider/model, for instance openai/gpt-4.1-mini; a model of your own server as openai/NAME.';
END
$$;
COMMENT ON FUNCTION public.parley_check_model IS 'Refuses a model that nobody can have; warns of one that litellm does not list.';
