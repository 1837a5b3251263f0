-- Writes a row of persona_versions for each persona that is added, changed or deleted, whoever does it: psql, the program.
--
-- `fields` holds the columns of the persona as they are after the change, and of a deleted one as they were. An update that
-- changes nothing makes no version. The persona's row is locked by the change, so that numbers are given one after another.
-- Runs with the rights of its owner: nobody else may write versions.
CREATE FUNCTION public.parley_write_persona_version() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_persona public.personas := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    IF TG_OP = 'UPDATE' AND OLD IS NOT DISTINCT FROM NEW THEN
        RETURN NULL;
    END IF;
    INSERT INTO public.persona_versions (persona_id, version, name, action, fields, database_user, actor)
    SELECT v_persona.id, 1 + coalesce(max(known.version), 0), v_persona.name, lower(TG_OP),
           to_jsonb(v_persona) - '{id,created_at}'::text[], session_user,
           nullif(current_setting('parley.actor', true), '')
    FROM public.persona_versions AS known WHERE known.persona_id = v_persona.id;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_write_persona_version IS 'Trigger: keeps each version of a persona in persona_versions.';
REVOKE EXECUTE ON FUNCTION public.parley_write_persona_version FROM parley_app;
