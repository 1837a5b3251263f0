CREATE FUNCTION public.parley_place_vector() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    SELECT scope_id INTO NEW.scope_id FROM memories WHERE id = NEW.memory_id;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_place_vector IS 'Trigger: fills in who may see the memory of a vector.';
