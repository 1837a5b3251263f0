CREATE FUNCTION public.parley_place_memory() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    said_in conversations;
BEGIN
    IF NEW.scope = 'conversation' THEN
        SELECT * INTO said_in FROM conversations AS c WHERE c.id = NEW.conversation_id;
        IF said_in.id IS NULL THEN
            RAISE 'a memory with the scope conversation needs the conversation_id of its channel'
                USING ERRCODE = 'check_violation';
        END IF;
        NEW.platform := said_in.platform;
        NEW.platform_server_id := coalesce(said_in.platform_server_id, said_in.platform_channel_id);
    ELSIF NEW.scope = 'server' AND (NEW.platform IS NULL OR NEW.platform_server_id IS NULL) THEN
        RAISE 'new row violates "memories_server_scope_names_its_server": name platform and platform_server_id'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'memories_server_scope_names_its_server';
    ELSIF NEW.scope NOT IN ('private', 'server', 'everywhere') THEN
        -- The table's own constraint refuses it.
        NEW.scope_id := 0;
        RETURN NEW;
    END IF;
    NEW.scope_id := parley_memory_scope(
        NEW.scope, NEW.user_id, NEW.platform, NEW.platform_server_id, said_in.platform_channel_id,
        said_in.platform_thread_id
    );
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_place_memory IS 'Trigger: fills in who may see a memory.';
