-- Makes a guest with this account, unless there is a person who has it. Several first messages may arrive at once: with the
-- lock, one of them makes the person, and the others find that.
CREATE FUNCTION public.parley_make_user(p_platform text, p_account text, p_username text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_platform || ':' || p_account, 0));
    IF NOT EXISTS (
        SELECT FROM public.user_platform_links WHERE platform = p_platform AND platform_user_id = p_account
    ) THEN
        INSERT INTO public.users DEFAULT VALUES RETURNING id INTO v_id;
        INSERT INTO public.user_platform_links (user_id, platform, platform_user_id, platform_username)
        VALUES (v_id, p_platform, p_account, p_username);
    END IF;
END
$$;
COMMENT ON FUNCTION public.parley_make_user IS 'Makes a guest with this account, unless there is a person who has it.';
