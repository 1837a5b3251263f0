-- Trigger: refuses a misspelled platform in what an admin sets for a place.
CREATE FUNCTION public.parley_check_place_v1() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' OR NEW.platform IS DISTINCT FROM OLD.platform THEN
        PERFORM public.parley_check_platform_v1(NEW.platform);
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_check_place_v1 IS 'Trigger: refuses a misspelled platform.';
