-- The permission that counts now, and pauses; names, permissions, budgets and persona texts can be changed in the views.

CREATE OR REPLACE VIEW admin.users AS
SELECT u.id, coalesce(u.display_name, account.name, 'user ' || u.id) AS name,
       public.parley_permission_v1(u.permission_level, u.permission_until, u.permission_after) AS permission,
       standing.budget, standing.used, standing.reserved, standing.resets_at AS renews_at, account.accounts,
       u.time_zone, u.is_memory_paused, u.created_at,
       CASE WHEN u.permission_until > now() THEN u.permission_until END AS permission_until, u.paused_at
FROM public.users AS u
CROSS JOIN LATERAL public.parley_budget_v1(
    u.token_budget_monthly, u.budget_from_roles, u.tokens_used_this_month, u.tokens_reserved, u.budget_reset_at
) AS standing
LEFT JOIN LATERAL (
    SELECT string_agg(link.platform || ':' || link.platform_user_id, ', ' ORDER BY link.id) AS accounts,
           (array_agg(link.platform_username ORDER BY link.id) FILTER (WHERE link.platform_username IS NOT NULL))[1] AS name
    FROM public.user_platform_links AS link WHERE link.user_id = u.id
) AS account ON true;
COMMENT ON VIEW admin.users IS
    'People: name, permission, budget as the program computes it (NULL = unlimited), accounts, pause. UPDATE changes name, permission, budget, time_zone.';

CREATE OR REPLACE VIEW admin.grants AS
SELECT person.name, person.permission AS permission, 'person' AS by, NULL::text AS server, NULL::text AS role, person.budget,
       person.permission_until AS until
FROM admin.users AS person WHERE person.permission <> 'guest'
UNION ALL
SELECT NULL, roles.permission_level, 'role', coalesce(server.name, roles.server), roles.role, roles.token_budget, NULL
FROM public.role_grants AS roles
LEFT JOIN public.servers AS server ON server.platform = roles.platform AND server.platform_server_id = roles.server;
COMMENT ON VIEW admin.grants IS 'Who may more than a guest, and until when: people, and the roles of servers.';

COMMENT ON VIEW admin.personas IS
    'Personas and where they answer; modules NULL = all that the permission allows. UPDATE changes name, modules, model, loop_mode, system_prompt.';

CREATE FUNCTION admin.change_user() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{name,permission,budget,time_zone}'::text[] <> to_jsonb(OLD) - '{name,permission,budget,time_zone}'::text[] THEN
        RAISE EXCEPTION 'in admin.users only name, permission, budget and time_zone can be changed'
            USING HINT = 'Functions do the rest: \df admin.* lists them.';
    END IF;
    UPDATE public.users SET display_name = NEW.name WHERE id = OLD.id AND NEW.name IS DISTINCT FROM OLD.name;
    UPDATE public.users SET time_zone = NEW.time_zone WHERE id = OLD.id AND NEW.time_zone IS DISTINCT FROM OLD.time_zone;
    UPDATE public.users SET permission_level = NEW.permission WHERE id = OLD.id AND NEW.permission IS DISTINCT FROM OLD.permission;
    -- After the permission, which may lift the budget.
    UPDATE public.users SET token_budget_monthly = NEW.budget WHERE id = OLD.id AND NEW.budget IS DISTINCT FROM OLD.budget;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION admin.change_user IS 'Trigger: UPDATE admin.users changes the table.';
CREATE TRIGGER change_user INSTEAD OF UPDATE ON admin.users FOR EACH ROW EXECUTE FUNCTION admin.change_user();

CREATE FUNCTION admin.change_persona() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{name,modules,model,loop_mode,system_prompt}'::text[]
       <> to_jsonb(OLD) - '{name,modules,model,loop_mode,system_prompt}'::text[] THEN
        RAISE EXCEPTION 'in admin.personas only name, modules, model, loop_mode and system_prompt can be changed'
            USING HINT = 'UPDATE personas changes the place.';
    END IF;
    UPDATE public.personas SET name = NEW.name, allowed_modules = NEW.modules, default_model = NEW.model,
        loop_mode = NEW.loop_mode, system_prompt = NEW.system_prompt
    WHERE id = OLD.id;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION admin.change_persona IS 'Trigger: UPDATE admin.personas changes the table.';
CREATE TRIGGER change_persona INSTEAD OF UPDATE ON admin.personas FOR EACH ROW EXECUTE FUNCTION admin.change_persona();
