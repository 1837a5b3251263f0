-- Trigger: nothing is remembered during a pause, except what is asked for. What came with a server from another cell was remembered
-- before.
CREATE FUNCTION public.parley_keep_pause() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF (
        EXISTS (SELECT FROM users WHERE id = NEW.user_id AND is_memory_paused)
        OR EXISTS (SELECT FROM conversations WHERE id = NEW.conversation_id AND is_memory_paused)
    ) AND current_setting('parley.takes_rows', true) IS DISTINCT FROM 'yes' THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_keep_pause IS 'Trigger: nothing is remembered during a pause, except what is asked for.';
