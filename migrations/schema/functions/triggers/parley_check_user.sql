CREATE FUNCTION public.parley_check_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.permission_level <> OLD.permission_level
       AND NEW.permission_until IS NOT DISTINCT FROM OLD.permission_until THEN
        -- Whoever sets a permission without an end means it so.
        NEW.permission_until := NULL;
        NEW.permission_after := NULL;
    END IF;
    -- What is granted for a time leaves the budget as it is, and admin.undo brings the old budget back itself. Who is no
    -- longer admin has a limit again: that of a guest, as the settings have it where the program changes the permission.
    IF TG_OP = 'UPDATE' AND coalesce(current_setting('parley.undoes', true), '') = ''
       AND NEW.token_budget_monthly IS NOT DISTINCT FROM OLD.token_budget_monthly THEN
        IF NEW.permission_level IN ('admin', 'owner') AND NEW.permission_until IS NULL
           AND (OLD.permission_level NOT IN ('admin', 'owner') OR OLD.permission_until IS NOT NULL) THEN
            NEW.token_budget_monthly := NULL;
        ELSIF NEW.permission_level NOT IN ('admin', 'owner') AND OLD.permission_level IN ('admin', 'owner') THEN
            NEW.token_budget_monthly := coalesce(
                NEW.token_budget_monthly, nullif(current_setting('parley.guest_budget', true), '')::bigint, 50000
            );
        END IF;
    END IF;
    IF NEW.time_zone <> 'UTC' AND NOT EXISTS (SELECT FROM pg_timezone_names WHERE name = NEW.time_zone) THEN
        RAISE EXCEPTION 'users_time_zone_is_known: there is no time zone "%"', NEW.time_zone
        USING ERRCODE = 'check_violation', CONSTRAINT = 'users_time_zone_is_known', TABLE = 'users',
              HINT = 'Write it as Europe/Berlin; SELECT name FROM pg_timezone_names lists them all.';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_check_user IS 'Trigger: refuses unknown time zones, and lets the budget follow the permission.';
