CREATE FUNCTION admin.set_default_persona(persona text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_persona public.personas;
BEGIN
    IF persona IS NULL THEN
        UPDATE public.personas SET is_default = false WHERE is_default;
        RETURN 'the built-in persona answers wherever no closer one does';
    END IF;
    SELECT * INTO v_persona FROM public.personas WHERE id = admin.get_persona(persona);
    IF v_persona.platform IS NOT NULL THEN
        RAISE EXCEPTION 'the persona % belongs to a place on %; a default has none', persona, v_persona.platform;
    END IF;
    UPDATE public.personas SET is_default = false WHERE is_default AND id <> v_persona.id;
    UPDATE public.personas SET is_default = true WHERE id = v_persona.id;
    RETURN format('the persona %s answers wherever no closer one does', persona);
END
$$;
COMMENT ON FUNCTION admin.set_default_persona IS 'The persona that answers wherever none belongs to the place, NULL = the built-in one: admin.set_default_persona(''Sage'').';
