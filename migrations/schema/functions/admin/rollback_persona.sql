CREATE FUNCTION admin.rollback_persona(persona text, version int) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_id bigint := admin.find_persona(persona);
    v_fields jsonb;
    v_columns text;
    v_last int;
BEGIN
    -- Which persona is the default is another decision: admin.set_default_persona.
    SELECT old.fields - 'is_default' INTO v_fields FROM public.persona_versions AS old
    WHERE old.persona_id = v_id AND old.version = version;
    SELECT max(old.version) INTO v_last FROM public.persona_versions AS old WHERE old.persona_id = v_id;
    IF v_fields IS NULL THEN
        RAISE EXCEPTION 'the persona % has the versions 1 to %, not %', persona, v_last, version
            USING HINT = 'SELECT * FROM admin.persona_versions shows them.';
    END IF;
    -- A column that the version does not know, because it is younger, stays as it is.
    SELECT string_agg(quote_ident(known.attname), ', ' ORDER BY known.attnum) INTO v_columns
    FROM pg_attribute AS known
    WHERE known.attrelid = 'public.personas'::regclass AND known.attnum > 0 AND v_fields ? known.attname::text;
    IF EXISTS (SELECT FROM public.personas WHERE id = v_id) THEN
        EXECUTE format(
            'UPDATE public.personas SET (%1$s) = (SELECT %1$s FROM jsonb_populate_record(NULL::public.personas, $1)) WHERE id = $2',
            v_columns
        ) USING v_fields, v_id;
    ELSE
        EXECUTE format(
            'INSERT INTO public.personas (id, %1$s) OVERRIDING SYSTEM VALUE
             SELECT $2, %1$s FROM jsonb_populate_record(NULL::public.personas, $1)',
            v_columns
        ) USING v_fields, v_id;
    END IF;
    SELECT max(old.version) INTO v_last FROM public.persona_versions AS old WHERE old.persona_id = v_id;
    RETURN format('%s is as in version %s again; this is its version %s', v_fields ->> 'name', version, v_last);
END
$$;
COMMENT ON FUNCTION admin.rollback_persona IS 'Makes a persona what it was, also a deleted one, but for being the default: admin.rollback_persona(''Sage'', 2).';
