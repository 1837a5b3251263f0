CREATE FUNCTION public.parley_change_memory() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM memory_words WHERE memory_id = OLD.id;
    DELETE FROM memory_vectors WHERE memory_id = OLD.id;
    IF OLD.is_indexed THEN
        UPDATE memory_scopes SET memories = memories - 1, words = words - OLD.turn_length WHERE id = OLD.scope_id;
    END IF;
    -- The windows of its neighbours hold the old text.
    DELETE FROM memory_vectors AS v USING memories AS m
    WHERE m.scope_id = OLD.scope_id AND m.ordinal IN (OLD.ordinal - 1, OLD.ordinal + 1) AND v.memory_id = m.id
          AND v.kind = 'window';
    UPDATE memories SET window_length = nullif(window_length - OLD.turn_length, turn_length), vector_model = NULL
    WHERE scope_id = OLD.scope_id AND ordinal IN (OLD.ordinal - 1, OLD.ordinal + 1) AND OLD.is_indexed;
    NEW.is_indexed := false;
    NEW.content_key := NULL;
    NEW.vector_model := NULL;
    IF NEW.scope <> OLD.scope OR NEW.user_id <> OLD.user_id
       OR (NEW.platform, NEW.platform_server_id) IS DISTINCT FROM (OLD.platform, OLD.platform_server_id) THEN
        NEW.ordinal := NULL;
        NEW.scope_id := NULL;
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_change_memory IS 'Trigger: a memory whose text or place changes leaves the index, and is indexed anew.';
