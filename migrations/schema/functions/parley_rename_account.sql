-- Stores how an account is called on its platform now.
CREATE FUNCTION public.parley_rename_account(p_link_id bigint, p_username text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE public.user_platform_links SET platform_username = p_username WHERE id = p_link_id;
END;
COMMENT ON FUNCTION public.parley_rename_account IS 'Stores how an account is called on its platform now.';
