CREATE FUNCTION admin.change_user() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{name,permission,budget,time_zone}'::text[] <> to_jsonb(OLD) - '{name,permission,budget,time_zone}'::text[] THEN
        RAISE EXCEPTION 'in admin.users only name, permission, budget and time_zone can be changed'
            USING HINT = 'Functions do the rest: \df admin.* lists them.';
    END IF;
    UPDATE public.users SET display_name = NEW.name WHERE id = OLD.id AND NEW.name IS DISTINCT FROM OLD.name;
    UPDATE public.users SET time_zone = NEW.time_zone WHERE id = OLD.id AND NEW.time_zone IS DISTINCT FROM OLD.time_zone;
    IF NEW.permission IS DISTINCT FROM OLD.permission THEN
        PERFORM public.parley_set_permission(OLD.id, NEW.permission);
    END IF;
    -- After the permission, which may lift the budget.
    IF NEW.budget IS DISTINCT FROM OLD.budget THEN
        PERFORM public.parley_set_budget(OLD.id, NEW.budget);
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION admin.change_user IS 'Trigger: UPDATE admin.users changes the table.';
