CREATE FUNCTION admin.change_user() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{name,permission,permission_until,budget,time_zone}'::text[] <> to_jsonb(OLD) - '{name,permission,permission_until,budget,time_zone}'::text[] THEN
        RAISE EXCEPTION 'in admin.users only name, permission, permission_until, budget and time_zone can be changed'
            USING HINT = 'Functions do the rest: \df admin.* lists them.';
    END IF;
    UPDATE public.users SET display_name = NEW.name WHERE id = OLD.id AND NEW.name IS DISTINCT FROM OLD.name;
    UPDATE public.users SET time_zone = NEW.time_zone WHERE id = OLD.id AND NEW.time_zone IS DISTINCT FROM OLD.time_zone;
    -- Whoever writes the permission that somebody has until a date means for ever.
    IF NEW.permission IS DISTINCT FROM OLD.permission OR NEW.permission_until IS DISTINCT FROM OLD.permission_until
       OR OLD.permission_until IS NOT NULL AND current_setting('parley.names_permission', true) = 'yes' THEN
        PERFORM public.parley_set_permission(OLD.id, NEW.permission, CASE
            WHEN NEW.permission_until IS DISTINCT FROM OLD.permission_until THEN NEW.permission_until END);
    END IF;
    -- After the permission, which may lift the budget.
    IF NEW.budget IS DISTINCT FROM OLD.budget THEN
        PERFORM public.parley_set_budget(OLD.id, NEW.budget);
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION admin.change_user IS 'Trigger: UPDATE admin.users changes the table.';
