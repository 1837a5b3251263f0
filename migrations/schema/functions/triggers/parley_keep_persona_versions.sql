CREATE FUNCTION public.parley_keep_persona_versions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'persona_versions is append-only: turns refer to its rows';
END
$$;
COMMENT ON FUNCTION public.parley_keep_persona_versions IS 'Trigger: refuses to change persona_versions.';
