-- As parley_act_as, in a chat: who is no admin everywhere, but by a role of the server, acts for that server alone
-- (parley_check_reach). A chat is no fresh login.
CREATE FUNCTION public.parley_act_on_server(p_user_id bigint, p_account text, p_platform text, p_server text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- As parley_act_as does, for whoever loses the role at this moment.
    PERFORM pg_advisory_xact_lock(hashtextextended('audit_log', 0));
    IF NOT EXISTS (
        SELECT FROM public.users AS person
        JOIN public.member_roles AS member ON member.user_id = person.id
        JOIN public.role_grants AS rule USING (platform, server)
        WHERE person.id = p_user_id AND person.paused_at IS NULL AND platform = p_platform AND server = p_server
          AND jsonb_exists(member.roles, rule.role) AND rule.permission_level IN ('admin', 'owner')
    ) OR EXISTS (SELECT FROM admin.users AS person WHERE person.id = p_user_id AND person.permission IN ('admin', 'owner')) THEN
        PERFORM public.parley_act_as(p_user_id, p_account, false);
        RETURN;
    END IF;
    PERFORM set_config('parley.actor', p_account, true), set_config('parley.acting_permission', 'admin', true),
            set_config('parley.has_fresh_login', 'no', true), set_config('parley.acting_until', '', true),
            set_config('parley.acting_server', p_platform || ':' || p_server, true);
END
$$;
COMMENT ON FUNCTION public.parley_act_on_server IS
    'The rest of the transaction is done by this admin, perhaps by a role of this server and for it alone.';
