-- Finds or makes the row of memory_scopes that a memory belongs to, and returns its id. Which columns name a scope is
-- written here alone: a person for what is theirs, a channel for what was said in it. Without a server the channel counts
-- as one. A thread counts only where fewer people may read it than its channel: the platform says where all may.
--
-- Runs with the rights of its owner: a batch has memories of many persons, of whom a turn may see one.
CREATE FUNCTION public.parley_memory_scope(
    p_scope text, p_user_id bigint, p_platform text, p_server text, p_channel text, p_thread text
)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_is_channel boolean := p_scope = 'conversation';
    v_is_person boolean := p_scope IN ('private', 'everywhere');
    v_user_id bigint := CASE WHEN NOT v_is_channel THEN p_user_id END;
    v_platform text := CASE WHEN NOT v_is_person THEN p_platform END;
    v_server text := CASE WHEN NOT v_is_person THEN coalesce(p_server, p_channel) END;
    v_channel text := CASE WHEN v_is_channel THEN p_channel END;
    v_thread text := CASE
        WHEN v_is_channel AND NOT EXISTS (SELECT FROM public.known_words WHERE kind = 'open_threads' AND word = p_platform)
        THEN p_thread
    END;
    v_id bigint;
BEGIN
    LOOP
        SELECT s.id INTO v_id FROM public.memory_scopes AS s
        WHERE s.scope = p_scope AND (s.user_id = v_user_id OR v_user_id IS NULL AND s.user_id IS NULL)
              AND (s.platform = v_platform OR v_platform IS NULL AND s.platform IS NULL)
              AND (s.platform_server_id = v_server OR v_server IS NULL AND s.platform_server_id IS NULL)
              AND (s.platform_channel_id = v_channel OR v_channel IS NULL AND s.platform_channel_id IS NULL)
              AND (s.platform_thread_id = v_thread OR v_thread IS NULL AND s.platform_thread_id IS NULL);
        IF FOUND THEN
            RETURN v_id;
        END IF;
        INSERT INTO public.memory_scopes
            (scope, user_id, platform, platform_server_id, platform_channel_id, platform_thread_id)
        VALUES (p_scope, v_user_id, v_platform, v_server, v_channel, v_thread)
        ON CONFLICT DO NOTHING RETURNING id INTO v_id;
        IF FOUND THEN
            RETURN v_id;
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_memory_scope IS 'The scope of memories of a person or a channel; makes it where there is none.';
REVOKE EXECUTE ON FUNCTION public.parley_memory_scope FROM parley_admin;
