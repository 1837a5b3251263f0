-- Says for whom the rest of this transaction acts: the log of changes names the account, and parley_check_rank asks what
-- this person may. Raises when they are no admin, or paused; returns their permission.
CREATE FUNCTION public.parley_act_as(p_user_id bigint, p_account text, p_is_fresh boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_permission text;
    v_until timestamptz;
BEGIN
    -- Acts come one after another, in the order of the log: else whoever is demoted at this moment would still act after it.
    PERFORM pg_advisory_xact_lock(hashtextextended('audit_log', 0));
    SELECT person.permission, person.permission_until INTO v_permission, v_until FROM admin.users AS person
    WHERE person.id = p_user_id AND person.permission IN ('admin', 'owner') AND person.paused_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only admins and owners may do this';
    END IF;
    PERFORM set_config('parley.actor', p_account, true), set_config('parley.acting_permission', v_permission, true),
            set_config('parley.has_fresh_login', CASE WHEN p_is_fresh THEN 'yes' ELSE 'no' END, true),
            set_config('parley.acting_until', coalesce(v_until::text, ''), true);
    RETURN v_permission;
END
$$;
COMMENT ON FUNCTION public.parley_act_as IS
    'The rest of the transaction is done by this admin: under their account in the log of changes, and within what they may.';
