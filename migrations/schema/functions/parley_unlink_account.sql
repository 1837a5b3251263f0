-- Takes an account from a person: whoever writes by it next is somebody new. The last one stays, and so does p_but, by which the
-- person asks. Tells whether it was theirs, and went.
CREATE FUNCTION public.parley_unlink_account(p_user_id bigint, p_link_id bigint, p_but text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    -- Two that go at once do not leave nobody.
    PERFORM FROM public.users WHERE id = p_user_id FOR UPDATE;
    DELETE FROM public.user_platform_links AS link
    WHERE link.id = p_link_id AND link.user_id = p_user_id AND (link.platform, link.platform_user_id) <> ('web', p_but)
      AND EXISTS (
          SELECT FROM public.user_platform_links AS other WHERE other.user_id = p_user_id AND other.id <> link.id
      );
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION public.parley_unlink_account IS 'Takes an account from a person who has another one; tells whether it went.';
REVOKE EXECUTE ON FUNCTION public.parley_unlink_account FROM parley_admin;
