-- Trigger, on in cells only: while a server arrives, the messages that were stored for it wait until its rows are here, or they
-- go back.
CREATE FUNCTION public.parley_hold_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM public.cell_servers
        WHERE state IN ('arriving', 'returning') AND platform || ' ' || platform_server_id = NEW.server
    ) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_hold_jobs IS 'Trigger: queues no turn of a server whose rows are still in another cell.';
