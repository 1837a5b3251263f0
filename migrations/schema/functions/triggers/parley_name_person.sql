-- Trigger: a person without a name is called as their account is, and follows it when it is renamed.
CREATE FUNCTION public.parley_name_person() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.users SET display_name = NEW.platform_username
    WHERE id = NEW.user_id AND display_name IS DISTINCT FROM NEW.platform_username
      AND (display_name IS NULL OR TG_OP = 'UPDATE' AND display_name = OLD.platform_username);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION public.parley_name_person IS 'Trigger: gives people without a name that of their account.';
