-- Makes an account one of a person's. One that is somebody else's stays theirs, unless it may be moved. Returns whose it is now.
CREATE FUNCTION public.parley_link_account(
    p_user_id bigint, p_platform text, p_account text, p_may_move boolean DEFAULT false
) RETURNS bigint
LANGUAGE sql
BEGIN ATOMIC
    INSERT INTO public.user_platform_links AS link (user_id, platform, platform_user_id)
    VALUES (p_user_id, p_platform, p_account)
    ON CONFLICT (platform, platform_user_id) DO UPDATE SET user_id = excluded.user_id
    WHERE p_may_move AND link.user_id <> excluded.user_id;
    SELECT user_id FROM public.user_platform_links WHERE platform = p_platform AND platform_user_id = p_account;
END;
COMMENT ON FUNCTION public.parley_link_account IS 'Makes an account one of a person''s; returns whose it is now.';
