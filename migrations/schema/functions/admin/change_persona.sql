CREATE FUNCTION admin.change_persona() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{name,modules,model,loop_mode,system_prompt}'::text[]
       <> to_jsonb(OLD) - '{name,modules,model,loop_mode,system_prompt}'::text[] THEN
        RAISE EXCEPTION 'in admin.personas only name, modules, model, loop_mode and system_prompt can be changed'
            USING HINT = 'UPDATE personas changes the place.';
    END IF;
    UPDATE public.personas SET name = NEW.name, allowed_modules = NEW.modules, default_model = NEW.model,
        loop_mode = NEW.loop_mode, system_prompt = NEW.system_prompt
    WHERE id = OLD.id;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION admin.change_persona IS 'Trigger: UPDATE admin.personas changes the table.';
