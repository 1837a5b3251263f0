-- What admins call by hand. Each function changes one thing, says in one sentence what it did, and refuses what makes no sense
-- with what would. They run with the rights of whoever calls them; the log (admin.audit) has each change.

CREATE FUNCTION admin.find_user(platform text, account text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    v_id bigint;
    v_known text;
BEGIN
    SELECT link.user_id INTO v_id FROM public.user_platform_links AS link
    WHERE link.platform = platform AND (link.platform_user_id = account OR lower(link.platform_username) = lower(account))
    ORDER BY link.platform_user_id = account DESC LIMIT 1;
    IF FOUND THEN
        RETURN v_id;
    END IF;
    SELECT string_agg(DISTINCT link.platform, ', ') INTO v_known FROM public.user_platform_links AS link;
    IF NOT EXISTS (SELECT FROM public.user_platform_links AS link WHERE link.platform = platform) THEN
        RAISE EXCEPTION 'nobody has an account on %; there are accounts on: %', platform, coalesce(v_known, 'no platform yet');
    END IF;
    RAISE EXCEPTION '% has no account % that has ever written', platform, account
        USING HINT = 'SELECT id, name, accounts FROM admin.users shows everybody.';
END
$$;
COMMENT ON FUNCTION admin.find_user IS 'The number of a user by an account''s id or name: admin.find_user(''discord'', ''ann'').';

CREATE FUNCTION admin.set_budget(platform text, account text, tokens bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
BEGIN
    IF tokens < 0 THEN
        RAISE EXCEPTION 'a budget is 0 (may spend nothing), more, or NULL (unlimited), not %', tokens;
    END IF;
    UPDATE public.users SET token_budget_monthly = tokens WHERE id = v_id;
    RETURN format('%s may use %s in 30 days', account, coalesce(tokens || ' tokens', 'any number of tokens'));
END
$$;
COMMENT ON FUNCTION admin.set_budget IS 'Sets a person''s budget in tokens for 30 days, NULL = unlimited: admin.set_budget(''discord'', ''ann'', 50000).';

CREATE FUNCTION admin.set_server_budget(platform text, server text, tokens bigint) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF tokens < 0 THEN
        RAISE EXCEPTION 'a budget is 0 (may spend nothing), more, or NULL (unlimited), not %', tokens;
    END IF;
    INSERT INTO public.servers (platform, platform_server_id, token_budget_monthly) VALUES (platform, server, tokens)
    ON CONFLICT ON CONSTRAINT uq_servers_platform_platform_server_id DO UPDATE SET token_budget_monthly = excluded.token_budget_monthly;
    RETURN format('all people of %s together may use %s in 30 days', server, coalesce(tokens || ' tokens', 'any number of tokens'));
END
$$;
COMMENT ON FUNCTION admin.set_server_budget IS 'Sets what all people of a server may use together in 30 days, NULL = unlimited.';

CREATE FUNCTION admin.grant_permission(platform text, account text, permission text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint := admin.find_user(platform, account);
    v_before text;
BEGIN
    IF permission NOT IN ('guest', 'user', 'admin', 'owner') THEN
        RAISE EXCEPTION 'there is no permission %; there are: guest, user, admin, owner', quote_literal(permission);
    END IF;
    SELECT permission_level INTO v_before FROM public.users WHERE id = v_id FOR UPDATE;
    IF v_before = 'owner' AND permission <> 'owner'
       AND NOT EXISTS (SELECT FROM public.users WHERE permission_level = 'owner' AND id <> v_id) THEN
        RAISE EXCEPTION '% is the last owner; make somebody else owner first', account;
    END IF;
    UPDATE public.users SET permission_level = permission WHERE id = v_id;
    RETURN format('%s is %s now, and was %s', account, permission, v_before);
END
$$;
COMMENT ON FUNCTION admin.grant_permission IS 'Makes a person guest, user, admin or owner: admin.grant_permission(''discord'', ''ann'', ''admin'').';

CREATE FUNCTION admin.create_persona(
    name text, system_prompt text, platform text DEFAULT NULL, server text DEFAULT NULL, channel text DEFAULT NULL,
    modules text[] DEFAULT NULL, model text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    IF btrim(coalesce(system_prompt, '')) = '' THEN
        RAISE EXCEPTION 'the persona % needs instructions: system_prompt is empty', name;
    END IF;
    IF platform IS NULL AND coalesce(server, channel) IS NOT NULL THEN
        RAISE EXCEPTION 'a server or channel needs its platform, for instance platform => ''discord''';
    END IF;
    INSERT INTO public.personas (name, system_prompt, platform, platform_server_id, platform_channel_id, allowed_modules, default_model)
    VALUES (name, system_prompt, platform, server, channel, to_jsonb(modules), model);
    RETURN format('the persona %s answers %s', name, CASE
        WHEN channel IS NOT NULL THEN format('in the channel %s of %s', channel, platform)
        WHEN server IS NOT NULL THEN format('on the server %s of %s', server, platform)
        WHEN platform IS NOT NULL THEN 'on ' || platform
        ELSE 'nobody yet: SELECT admin.set_default_persona(' || quote_literal(name) || ')' END);
END
$$;
COMMENT ON FUNCTION admin.create_persona IS 'Adds a persona for a channel, a server, a platform or, without these, for admin.set_default_persona.';

CREATE FUNCTION admin.set_default_persona(persona text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_persona public.personas;
BEGIN
    SELECT * INTO v_persona FROM public.personas WHERE name = persona;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no persona %; there are: %', quote_literal(persona),
            coalesce((SELECT string_agg(name, ', ' ORDER BY name) FROM public.personas), 'none yet');
    END IF;
    IF v_persona.platform IS NOT NULL THEN
        RAISE EXCEPTION 'the persona % belongs to a place on %; a default has none', persona, v_persona.platform;
    END IF;
    UPDATE public.personas SET is_default = false WHERE is_default AND id <> v_persona.id;
    UPDATE public.personas SET is_default = true WHERE id = v_persona.id;
    RETURN format('the persona %s answers wherever no closer one does', persona);
END
$$;
COMMENT ON FUNCTION admin.set_default_persona IS 'The persona that answers wherever none belongs to the place: admin.set_default_persona(''Sage'').';

CREATE FUNCTION admin.link_accounts(platform text, account text, to_platform text, to_account text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_moved bigint := admin.find_user(platform, account);
    v_kept bigint := admin.find_user(to_platform, to_account);
BEGIN
    IF v_moved = v_kept THEN
        RAISE EXCEPTION '% and % are the same person already', account, to_account;
    END IF;
    UPDATE public.user_platform_links AS link SET user_id = v_kept
    WHERE link.user_id = v_moved AND link.platform = link_accounts.platform
      AND (link.platform_user_id = account OR lower(link.platform_username) = lower(account));
    RETURN format('%s of %s is an account of %s of %s now: same permission, budget and memories', account, platform, to_account, to_platform);
END
$$;
COMMENT ON FUNCTION admin.link_accounts IS 'Makes an account one of the person who has another one: permission, budget and memories are theirs.';
