-- The rows of `budgets` that apply to what a person, a persona and a conversation spend together, in the order of their ids,
-- which is the order of locks. Each may be NULL: nobody pays for the summary of a shared conversation alone.
--
-- A role counts while the platform's last message of the person on that server has named it.
CREATE FUNCTION public.parley_find_budgets(p_user_id bigint, p_conversation_id bigint, p_persona_id bigint)
RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_place record;
BEGIN
    IF NOT EXISTS (SELECT FROM public.budgets) THEN
        RETURN '{}';
    END IF;
    SELECT platform, platform_server_id, platform_channel_id INTO v_place
    FROM public.conversations WHERE id = p_conversation_id;
    RETURN ARRAY(
        SELECT b.id FROM public.budgets AS b
        WHERE b.user_id = p_user_id OR b.persona_id = p_persona_id OR b.kind = 'installation'
           OR b.permission_level = (
                  SELECT public.parley_permission(permission_level, permission_until, permission_after)
                  FROM public.users WHERE users.id = p_user_id
              )
           OR b.platform = v_place.platform AND b.platform_server_id IS NOT DISTINCT FROM v_place.platform_server_id AND (
                  b.kind = 'server'
               OR b.platform_channel_id = v_place.platform_channel_id
               OR b.role IS NOT NULL AND EXISTS (
                      SELECT FROM public.member_roles
                      WHERE member_roles.user_id = p_user_id AND member_roles.platform = b.platform
                        AND member_roles.server = b.platform_server_id AND jsonb_exists(member_roles.roles, b.role)
                  )
              )
        ORDER BY b.id
    );
END
$$;
COMMENT ON FUNCTION public.parley_find_budgets IS
    'The rows of budgets that apply to a person, a conversation and a persona, in the order in which they are locked.';
