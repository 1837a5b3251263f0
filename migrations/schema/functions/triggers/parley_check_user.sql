CREATE FUNCTION public.parley_check_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.time_zone <> 'UTC' AND NOT EXISTS (SELECT FROM pg_timezone_names WHERE name = NEW.time_zone) THEN
        RAISE EXCEPTION 'users_time_zone_is_known: there is no time zone "%"', NEW.time_zone
        USING ERRCODE = 'check_violation', CONSTRAINT = 'users_time_zone_is_known', TABLE = 'users',
              HINT = 'Write it as Europe/Berlin; SELECT name FROM pg_timezone_names lists them all.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_check_user IS 'Trigger: refuses unknown time zones.';
