-- A module without a row is on, for whom its tools say; so a row that would say the same goes.
CREATE FUNCTION admin.set_module(module text, is_enabled boolean DEFAULT NULL, permission text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_row public.modules;
    -- The search among tools is a part of the offer.
    v_modules text[] := ARRAY(SELECT word FROM public.known_words WHERE kind = 'module' AND word <> 'tools' ORDER BY word);
BEGIN
    IF permission NOT IN ('guest', 'user', 'admin', 'owner') THEN
        RAISE EXCEPTION 'there is no permission %; there are: guest, user, admin, owner', quote_literal(permission);
    END IF;
    -- As whoever undoes, one after another: what is not named stays as another admin has left it just now.
    PERFORM pg_advisory_xact_lock(hashtextextended('audit_log', 0));
    SELECT * INTO v_row FROM public.modules WHERE name = module;
    -- The row of one that is gone can be changed still; before the first start nothing is known.
    IF module IS NULL OR v_row.id IS NULL AND v_modules <> '{}' AND module <> ALL (v_modules) THEN
        RAISE EXCEPTION 'there is no module %; %', quote_nullable(module), CASE
            WHEN EXISTS (SELECT FROM public.mcp_servers WHERE name = module) THEN 'admin.set_mcp_server switches MCP servers'
            ELSE 'there are: ' || array_to_string(v_modules, ', ') END;
    END IF;
    is_enabled := coalesce(is_enabled, v_row.is_enabled, true);
    permission := coalesce(permission, v_row.required_permission, 'guest');
    IF is_enabled AND permission = 'guest' THEN
        DELETE FROM public.modules WHERE name = module;
        RETURN format('the module %s is on, for whom its tools say', module);
    END IF;
    INSERT INTO public.modules (name, is_enabled, required_permission) VALUES (module, is_enabled, permission)
    ON CONFLICT ON CONSTRAINT uq_modules_name DO UPDATE SET
        is_enabled = excluded.is_enabled, required_permission = excluded.required_permission;
    RETURN format('the module %s is %s, for %s', module, CASE WHEN is_enabled THEN 'on' ELSE 'off' END,
                  CASE permission WHEN 'guest' THEN 'whom its tools say' ELSE permission || 's and above' END);
END
$$;
COMMENT ON FUNCTION admin.set_module IS
    'Switches a module on or off, and says who may use its tools, beyond what each needs itself: admin.set_module(''research'', permission => ''user'').';
