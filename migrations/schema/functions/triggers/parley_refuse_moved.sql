-- Trigger, on in cells only: a message of a server that lives in another cell is not stored, and parley_accept tells no id of
-- it; one that was stored before is found as ever. While a server leaves, its scheduled jobs still end here. This and not
-- what a process remembers decides in which cell a message is.
CREATE FUNCTION public.parley_refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM public.cell_servers
        WHERE platform = NEW.platform AND platform_server_id = NEW.platform_server_id
          AND (state IN ('returning', 'moved') OR state = 'leaving' AND NEW.due_job IS NULL)
    ) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_refuse_moved IS 'Trigger: stores no message of a server that lives in another cell.';
