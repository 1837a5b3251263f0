-- Trigger: end and budget follow a permission that a statement sets, whoever sets it. admin.undo brings both back itself.
-- Whoever sets a permission without naming an end means it so; parley_set_permission says when the end is the old one.
-- What is granted for a time leaves the budget as it is, and so does its end. Who is no longer admin has a limit again: that
-- of a guest, as the settings have it.
CREATE FUNCTION public.parley_follow_permission() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_ends constant boolean := OLD.permission_until <= now() AND NEW.permission_until IS NULL
        AND NEW.permission_level = OLD.permission_after;
BEGIN
    IF coalesce(current_setting('parley.undoes', true), '') <> '' THEN
        RETURN NEW;
    END IF;
    IF NEW.permission_until IS NOT DISTINCT FROM OLD.permission_until
       AND coalesce(current_setting('parley.is_until', true), '') = '' THEN
        NEW.permission_until := NULL;
        NEW.permission_after := NULL;
    END IF;
    IF NEW.token_budget_monthly IS DISTINCT FROM OLD.token_budget_monthly THEN
        RETURN NEW;
    END IF;
    IF NEW.permission_level NOT IN ('admin', 'owner') AND OLD.permission_level IN ('admin', 'owner') THEN
        NEW.token_budget_monthly := coalesce(NEW.token_budget_monthly, public.parley_guest_budget());
    ELSIF NEW.permission_level IN ('admin', 'owner') AND NEW.permission_until IS NULL AND v_ends IS NOT TRUE THEN
        NEW.token_budget_monthly := NULL;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_follow_permission IS 'Trigger: lets the end of a permission and the budget follow the permission.';
