-- Trigger: refuses a misspelled platform in what an admin sets for a place.
CREATE FUNCTION public.parley_check_place() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.platform IS DISTINCT FROM OLD.platform THEN
        PERFORM public.parley_check_platform(NEW.platform);
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_check_place IS 'Trigger: refuses a misspelled platform.';
