-- More of what admins call by hand, as in functions_v1.sql: permissions with an end, pauses, the end of a person or a persona.

DROP FUNCTION admin.grant_permission(text, text, text);
CREATE FUNCTION admin.grant_permission(platform text, account text, permission text, until timestamptz DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
    v_user public.users;
    v_before text;
BEGIN
    IF permission IS NULL OR permission NOT IN ('guest', 'user', 'admin', 'owner') THEN
        RAISE EXCEPTION 'there is no permission %; there are: guest, user, admin, owner', quote_nullable(permission);
    END IF;
    IF until <= now() THEN
        RAISE EXCEPTION 'the end % has passed already', to_char(until, 'YYYY-MM-DD HH24:MI TZ');
    END IF;
    SELECT * INTO v_user FROM public.users WHERE id = v_id FOR UPDATE;
    v_before := public.parley_permission_v1(v_user.permission_level, v_user.permission_until, v_user.permission_after);
    IF until IS NULL THEN
        UPDATE public.users SET permission_level = permission, permission_until = NULL, permission_after = NULL WHERE id = v_id;
        RETURN format('%s is %s now, and was %s', account, permission, v_before);
    END IF;
    UPDATE public.users SET permission_level = permission, permission_until = until, permission_after = CASE
        WHEN v_user.permission_until > now() THEN v_user.permission_after ELSE v_before END
    WHERE id = v_id RETURNING * INTO v_user;
    RETURN format('%s is %s until %s, then %s', account, permission, to_char(until, 'YYYY-MM-DD HH24:MI TZ'), v_user.permission_after);
END
$$;
COMMENT ON FUNCTION admin.grant_permission IS
    'Makes a person guest, user, admin or owner, for ever or until a time: admin.grant_permission(''discord'', ''ann'', ''admin'', now() + interval ''7 days'').';

CREATE FUNCTION admin.pause_user(platform text, account text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    UPDATE public.users SET paused_at = now() WHERE id = v_id AND paused_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is paused already; admin.resume_user ends it', account;
    END IF;
    PERFORM pg_notify('parley_stops', id::text) FROM public.turns WHERE user_id = v_id AND status = 'running';
    UPDATE public.turns SET stop_requested = true WHERE user_id = v_id AND status = 'running';
    RETURN format('%s is paused: no model is asked for them until admin.resume_user(%L, %L)', account, platform, account);
END
$$;
COMMENT ON FUNCTION admin.pause_user IS 'Stops answering a person, who is told so; their running turns end: admin.pause_user(''discord'', ''ann'').';

CREATE FUNCTION admin.resume_user(platform text, account text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    UPDATE public.users SET paused_at = NULL WHERE id = v_id AND paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not paused', account;
    END IF;
    RETURN format('%s is answered again', account);
END
$$;
COMMENT ON FUNCTION admin.resume_user IS 'Ends a pause: admin.resume_user(''discord'', ''ann'').';

CREATE FUNCTION admin.pause_server(platform text, server text) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF EXISTS (
        SELECT FROM public.servers AS s
        WHERE s.platform = pause_server.platform AND s.platform_server_id = server AND s.paused_at IS NOT NULL
    ) THEN
        RAISE EXCEPTION '% is paused already; admin.resume_server ends it', server;
    END IF;
    PERFORM public.parley_check_platform_v1(pause_server.platform);
    -- The row is not part of the change: undoing that must not take what the server has spent.
    INSERT INTO public.servers (platform, platform_server_id) VALUES (pause_server.platform, server) ON CONFLICT DO NOTHING;
    UPDATE public.servers AS s SET paused_at = now() WHERE s.platform = pause_server.platform AND s.platform_server_id = server;
    PERFORM pg_notify('parley_stops', t.id::text) FROM public.turns AS t JOIN public.conversations AS c ON c.id = t.conversation_id
    WHERE t.status = 'running' AND c.platform = pause_server.platform AND c.platform_server_id = server;
    UPDATE public.turns AS t SET stop_requested = true FROM public.conversations AS c
    WHERE c.id = t.conversation_id AND t.status = 'running'
      AND c.platform = pause_server.platform AND c.platform_server_id = server;
    RETURN format('nobody is answered on %s until admin.resume_server(%L, %L)', server, pause_server.platform, server);
END
$$;
COMMENT ON FUNCTION admin.pause_server IS 'Stops answering on a server or workspace; running turns there end: admin.pause_server(''discord'', ''81384788765712384'').';

CREATE FUNCTION admin.resume_server(platform text, server text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE public.servers AS s SET paused_at = NULL
    WHERE s.platform = resume_server.platform AND s.platform_server_id = server AND s.paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not paused', server;
    END IF;
    RETURN format('people are answered on %s again', server);
END
$$;
COMMENT ON FUNCTION admin.resume_server IS 'Ends the pause of a server: admin.resume_server(''discord'', ''81384788765712384'').';

CREATE FUNCTION admin.delete_persona(persona text, history boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM public.personas WHERE name = persona) THEN
        RAISE EXCEPTION 'there is no persona %; there are: %', quote_literal(persona),
            coalesce((SELECT string_agg(name, ', ' ORDER BY name) FROM public.personas), 'none yet');
    END IF;
    IF NOT history AND EXISTS (
        SELECT FROM public.turns JOIN public.personas ON personas.id = turns.persona_id WHERE personas.name = persona
    ) THEN
        RAISE EXCEPTION 'the persona % has answered turns, which would no longer say who answered; to delete it all the same: history => true', persona;
    END IF;
    PERFORM set_config('parley.delete_history', 'yes', true);
    DELETE FROM public.personas WHERE name = persona;
    PERFORM set_config('parley.delete_history', '', true);
    RETURN format('the persona %s is deleted', persona);
END
$$;
COMMENT ON FUNCTION admin.delete_persona IS 'Deletes a persona; one that has answered only with history => true: admin.delete_persona(''Sage'', history => true).';

-- With the rights of its owner, because it counts and asks for what workers do.
CREATE FUNCTION admin.erase_user(platform text, account text, sure boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
    v_erasure bigint;
BEGIN
    IF NOT sure THEN
        RAISE EXCEPTION 'this can''t be undone: % turns, % memories and % files of % (user %) go; say sure => true',
            (SELECT count(*) FROM public.turns WHERE user_id = v_id), (SELECT count(*) FROM public.memories WHERE user_id = v_id),
            (SELECT count(*) FROM public.file_records WHERE user_id = v_id), account, v_id;
    END IF;
    IF EXISTS (SELECT FROM public.users WHERE id = v_id AND permission_level = 'owner') AND NOT EXISTS (
        SELECT FROM public.users WHERE permission_level = 'owner' AND permission_until IS NULL AND id <> v_id
    ) THEN
        RAISE EXCEPTION '% is the last owner; make somebody else owner first', account;
    END IF;
    INSERT INTO public.erasures (user_id) VALUES (v_id) ON CONFLICT DO NOTHING;
    SELECT id INTO v_erasure FROM public.erasures WHERE user_id = v_id;
    RETURN format('%s is being erased, files in the storage included; SELECT finished_at FROM erasures WHERE id = %s says when it is done', account, v_erasure);
END
$$;
COMMENT ON FUNCTION admin.erase_user IS
    'Erases a person with everything that is kept about them; a worker does it within a minute: admin.erase_user(''discord'', ''ann'', sure => true).';

-- With the rights of its owner: what belongs to a person is in tables that admins only read. Which these are, the foreign keys say.
CREATE FUNCTION admin.merge_users(platform text, account text, into_platform text, into_account text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_merged bigint := admin.find_user(platform, account);
    v_kept bigint := admin.find_user(into_platform, into_account);
    v_user public.users;
    v_key record;
    v_row bigint;
BEGIN
    IF v_merged = v_kept THEN
        RAISE EXCEPTION '% and % are the same person already', account, into_account;
    END IF;
    PERFORM FROM public.users WHERE id IN (v_merged, v_kept) ORDER BY id FOR UPDATE;
    SELECT * INTO v_user FROM public.users WHERE id = v_merged;
    IF EXISTS (SELECT FROM public.turns WHERE user_id = v_merged AND status = 'running') THEN
        RAISE EXCEPTION '% is being answered at this moment; try again in a minute', account;
    END IF;
    FOR v_key IN
        SELECT conrelid::regclass AS owned, attname AS whose FROM pg_constraint
        JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
        WHERE contype = 'f' AND confrelid = 'public.users'::regclass
          -- What the database derives from memories, which bring it with them.
          AND conrelid NOT IN ('public.memory_scopes'::regclass, 'public.memory_postings'::regclass, 'public.memory_vectors'::regclass)
        ORDER BY conrelid::regclass::text
    LOOP
        FOR v_row IN EXECUTE format('SELECT id FROM %s WHERE %I = $1', v_key.owned, v_key.whose) USING v_merged LOOP
            BEGIN
                EXECUTE format('UPDATE %s SET %I = $1 WHERE id = $2', v_key.owned, v_key.whose) USING v_kept, v_row;
            EXCEPTION WHEN unique_violation THEN
                -- Both have it, for instance a place of the same name: the one of the person who stays counts.
                NULL;
            END;
        END LOOP;
    END LOOP;
    UPDATE public.users SET
        tokens_used_this_month = tokens_used_this_month + CASE WHEN v_user.budget_reset_at > now() THEN v_user.tokens_used_this_month ELSE 0 END,
        tokens_reserved = tokens_reserved + v_user.tokens_reserved, has_memories = has_memories OR v_user.has_memories
    WHERE id = v_kept;
    PERFORM set_config('parley.delete_history', 'yes', true);
    DELETE FROM public.users WHERE id = v_merged;
    PERFORM set_config('parley.delete_history', '', true);
    RETURN format('%s is %s of %s now: accounts, memories, files, jobs and what was spent; user %s is gone', account, into_account, into_platform, v_merged);
END
$$;
COMMENT ON FUNCTION admin.merge_users IS
    'Makes two people one: all that the first one has becomes the second one''s, whose permission and budget stay: admin.merge_users(''slack'', ''U024BE7LH'', ''discord'', ''ann'').';
