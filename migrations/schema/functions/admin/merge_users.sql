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
    PERFORM public.parley_lock_limits(ARRAY[v_merged, v_kept], NULL, NULL);
    PERFORM FROM public.users WHERE id IN (v_merged, v_kept) ORDER BY id FOR UPDATE;
    SELECT * INTO v_user FROM public.users WHERE id = v_merged;
    IF EXISTS (SELECT FROM public.turns WHERE user_id = v_merged AND status = 'running') THEN
        RAISE EXCEPTION '% is being answered at this moment; try again in a minute', account;
    END IF;
    -- A period that is over begins anew first.
    PERFORM public.parley_add_to_limits(ROW(v_kept, NULL, NULL), 0, 0, v_user.tokens_reserved, 0);
    FOR v_key IN
        SELECT conrelid::regclass AS owned, attname AS whose FROM pg_constraint
        JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
        WHERE contype = 'f' AND confrelid = 'public.users'::regclass
          -- What the database derives from memories, which bring it with them.
          AND conrelid NOT IN ('public.memory_scopes'::regclass, 'public.memory_vectors'::regclass)
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
    -- The period is the one that ends first, and what was used in it is what the ledger says of both.
    UPDATE public.users SET has_memories = has_memories OR v_user.has_memories,
        budget_reset_at = CASE WHEN v_user.budget_reset_at > now() THEN least(budget_reset_at, v_user.budget_reset_at)
                               ELSE budget_reset_at END
    WHERE id = v_kept;
    UPDATE public.users SET tokens_used_this_month = (
        SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM public.token_logs
        WHERE token_logs.user_id = v_kept AND token_logs.created_at >= users.budget_reset_at - interval '30 days'
    )
    WHERE id = v_kept;
    PERFORM set_config('parley.delete_history', 'yes', true);
    DELETE FROM public.users WHERE id = v_merged;
    PERFORM set_config('parley.delete_history', '', true);
    RETURN format('%s is %s of %s now: accounts, memories, files, jobs and what was spent; user %s is gone', account, into_account, into_platform, v_merged);
END
$$;
COMMENT ON FUNCTION admin.merge_users IS
    'Makes two people one: all that the first one has becomes the second one''s, whose permission and budget stay: admin.merge_users(''slack'', ''U024BE7LH'', ''discord'', ''ann'').';
REVOKE EXECUTE ON FUNCTION admin.merge_users FROM PUBLIC;
GRANT EXECUTE ON FUNCTION admin.merge_users TO parley_admin;
