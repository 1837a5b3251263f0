-- Trigger: refuses what makes no sense in a persona with a sentence that says what would. Only what a statement changes is
-- looked at, so that an old persona can be changed in other respects, and what admin.undo brings back was allowed before, as
-- was what comes with a server from another cell.
CREATE FUNCTION public.parley_check_persona() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    v_modules text[];
    v_unknown text;
    v_nearest text;
BEGIN
    IF coalesce(current_setting('parley.undoes', true), '') <> '' OR current_setting('parley.takes_rows', true) = 'yes' THEN
        RETURN NEW;
    END IF;
    IF btrim(NEW.system_prompt, E' \t\n\r') = '' AND (TG_OP = 'INSERT' OR NEW.system_prompt <> OLD.system_prompt) THEN
        RAISE EXCEPTION 'the persona "%" needs instructions: system_prompt is empty', NEW.name;
    END IF;
    IF NEW.is_default AND NEW.platform IS NOT NULL
       AND (TG_OP = 'INSERT' OR (NEW.is_default, NEW.platform) IS DISTINCT FROM (OLD.is_default, OLD.platform)) THEN
        RAISE EXCEPTION 'the persona "%" belongs to a place on %; the default one has no place', NEW.name, NEW.platform
            USING HINT = 'Set its platform, platform_server_id and platform_channel_id to NULL, or choose another persona.';
    END IF;
    IF TG_OP = 'INSERT' OR NEW.platform IS DISTINCT FROM OLD.platform THEN
        PERFORM public.parley_check_platform(NEW.platform);
    END IF;
    IF TG_OP = 'INSERT' OR NEW.default_model IS DISTINCT FROM OLD.default_model THEN
        PERFORM public.parley_check_model(NEW.default_model);
    END IF;
    IF NEW.picture IS NOT NULL AND (TG_OP = 'INSERT' OR NEW.picture IS DISTINCT FROM OLD.picture)
       AND NOT EXISTS (SELECT FROM public.pictures WHERE sha256 = NEW.picture) THEN
        RAISE EXCEPTION 'there is no picture %; admin.set_picture stores one', NEW.picture;
    END IF;
    IF jsonb_typeof(NEW.allowed_modules) = 'array'
       AND (TG_OP = 'INSERT' OR NEW.allowed_modules IS DISTINCT FROM OLD.allowed_modules)
       AND EXISTS (SELECT FROM public.known_words WHERE kind = 'module') THEN
        v_modules := ARRAY(
            SELECT word FROM public.known_words WHERE kind = 'module' UNION SELECT name FROM public.mcp_servers ORDER BY 1
        );
        SELECT word #>> '{}' INTO v_unknown FROM jsonb_array_elements(NEW.allowed_modules) AS word
        WHERE jsonb_typeof(word) = 'string' AND word #>> '{}' <> ALL (v_modules) LIMIT 1;
        IF FOUND THEN
            v_nearest := public.parley_nearest(v_unknown, v_modules);
            RAISE EXCEPTION 'there is no module "%"; %', v_unknown, CASE
                WHEN v_nearest IS NOT NULL THEN format('do you mean %s?', v_nearest)
                ELSE 'there are: ' || array_to_string(v_modules, ', ') END;
        END IF;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_check_persona IS
    'Trigger: refuses personas without instructions, with unknown modules, models, platforms, or a default with a place.';
