-- The rights of a turn's person at this moment, with what admins have said of modules. Roles count where the message was
-- written, as when the turn began.
-- The planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_rights(p_turn_id bigint) RETURNS TABLE (
    permission_level text, allowed_modules jsonb, has_persona boolean, granted text[], modules json
)
LANGUAGE sql STABLE AS $$
    SELECT public.parley_permission(users.permission_level, users.permission_until, users.permission_after),
           personas.allowed_modules, personas.id IS NOT NULL, (
               SELECT array_agg(roles.permission_level) FROM public.parley_role_permissions(
                   users.id, conversations.platform, conversations.platform_server_id
               ) AS roles
           ), (SELECT modules FROM public.parley_list_modules())
    FROM public.turns JOIN public.conversations ON conversations.id = turns.conversation_id
    LEFT JOIN public.users ON users.id = turns.user_id LEFT JOIN public.personas ON personas.id = turns.persona_id
    WHERE turns.id = p_turn_id
$$;
COMMENT ON FUNCTION public.parley_rights IS
    'The permission of a turn''s person now, those that roles give there, the modules of its persona, and what admins have said of modules.';
